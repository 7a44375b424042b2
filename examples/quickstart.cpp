#include <crossflash/crossflash.hpp>

#include <cstdio>
#include <random>
#include <vector>

int main() {
  // 2 sequences of 512 tokens, 8 query heads on 2 key heads of size 64, causal, trained on.
  crossflash::Device device;  // the best there is; or e.g. Device("vulkan:1"), Device("cpu")
  crossflash_problem problem = crossflash::make_problem(2, 512, 512, 8, 2, 64);
  problem.passes = CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD;
  problem.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT;
  crossflash::Plan plan(device, problem);  // chooses kernels, compiles them; throws what it refuses

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> queries(2 * 512 * 8 * 64), keys(2 * 512 * 2 * 64);  // [batch, seq, heads, d]
  for (float& x : queries) x = normal(random);
  for (float& x : keys) x = normal(random);
  crossflash::Buffer q(device, queries), k(device, keys), v(device, keys), grad_o(device, queries);
  crossflash::Buffer o(device, q.bytes()), lse(device, 2 * 8 * 512 * sizeof(float));
  crossflash::Buffer grad_q(device, q.bytes()), grad_k(device, k.bytes()), grad_v(device, v.bytes());

  crossflash_args args = crossflash::make_args();
  args.q = q, args.k = k, args.v = v, args.o = o, args.lse = lse;
  args.grad_o = grad_o, args.grad_q = grad_q, args.grad_k = grad_k, args.grad_v = grad_v;
  plan.forward(args);   // both only enqueue
  plan.backward(args);

  const std::vector<float> out = o.download<float>(), dk = grad_k.download<float>();  // waits
  std::printf("%s\no[0] = %f (the first token sees only itself: v[0] = %f), dk[0] = %f\n",
              plan.describe().c_str(), out[0], keys[0], dk[0]);
}
