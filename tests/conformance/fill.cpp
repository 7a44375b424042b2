// SPDX-License-Identifier: MIT
#include "tests/conformance/fill.h"

#include <functional>
#include <limits>

#include "common/half.h"
#include "tests/conformance/sequences.h"
#include "tests/conformance/splitmix.h"

namespace crossflash::conformance {
namespace {

// The smallest positive number of the type; its subnormals are the multiples below the smallest
// normal number: 2^10, 2^23 and 2^7 of them.
float smallest(crossflash_dtype dtype) {
  return dtype == CROSSFLASH_F16 ? 0x1p-24f : dtype == CROSSFLASH_F32 ? 0x1p-149f : 0x1p-133f;
}
std::uint64_t subnormals(crossflash_dtype dtype) {
  return std::uint64_t{1} << (dtype == CROSSFLASH_F16 ? 10 : dtype == CROSSFLASH_F32 ? 23 : 7);
}

float normal(Random& random) { return static_cast<float>(random.normal()); }

// With q and k of deviation 12 scores have deviation 144, whatever d with the default scale: rows
// whose largest score is far past 88.7, where exp overflows f32, and others where all underflow.
// The raw dot product stays within f16: 144 * 6 * sqrt(512) is 2e4.
float large(Random& random) { return 12.0f * normal(random); }

// Three values: many scores of a row are equal, its maximum among them.
float ties(Random& random) { return static_cast<float>(random.below(3)) - 1.0f; }

float tiny(crossflash_dtype dtype, Random& random) {
  const auto count = subnormals(dtype);
  const float magnitude = static_cast<float>(random.below(count)) * smallest(dtype);
  return (random.bits() >> 63) != 0 ? -magnitude : magnitude;
}

std::vector<float> make_tensor(const Tensor& tensor, std::uint64_t seed,
                               const std::function<float(Random&)>& draw) {
  Random random(seed);
  std::vector<float> values(
      static_cast<std::size_t>(tensor.batch * tensor.seq * tensor.heads * tensor.width));
  for (float& value : values) value = round_to(tensor.dtype, draw(random));
  return values;
}

void clear_unused(const Problem& problem, const reference::Inputs& inputs, TensorId id,
                  std::vector<float>* values) {
  const std::vector<bool> used = in_sequences(problem, inputs, id);
  for (std::size_t n = 0; n < used.size(); ++n)
    if (!used[n]) (*values)[n] = std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

reference::Inputs make_inputs(const Case& c, const Problem& problem) {
  const auto dtype = problem.dtype;
  std::function<float(Random&)> score = normal;  // of q and k
  std::function<float(Random&)> value = normal;  // of v; grad_o is always normal
  switch (c.fill) {
    case Fill::normal:
      break;
    case Fill::large:
      score = large;
      break;
    case Fill::ties:
      score = value = ties;
      break;
    case Fill::tiny:
      score = value = [dtype](Random& random) { return tiny(dtype, random); };
      break;
  }
  const std::uint64_t seed = c.data_seed * 4;  // one stream for each tensor
  reference::Inputs inputs;
  inputs.q = make_tensor(problem.tensor(TensorId::q), seed, score);
  inputs.k = make_tensor(problem.tensor(TensorId::k), seed + 1, score);
  inputs.v = make_tensor(problem.tensor(TensorId::v), seed + 2, value);
  if (problem.backward)
    inputs.grad_o = make_tensor(problem.tensor(TensorId::grad_o), seed + 3, normal);
  fill_options(c, problem, &inputs);
  clear_unused(problem, inputs, TensorId::q, &inputs.q);
  clear_unused(problem, inputs, TensorId::k, &inputs.k);
  clear_unused(problem, inputs, TensorId::v, &inputs.v);
  if (problem.backward) clear_unused(problem, inputs, TensorId::grad_o, &inputs.grad_o);
  return inputs;
}

}  // namespace crossflash::conformance
