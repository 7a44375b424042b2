// SPDX-License-Identifier: MIT
// cuda_attention.cu: a CUDA program with a stream and device memory of its own has crossflash
// enqueue attention there, forward and backward, between its own work, and compares one head with
// the textbook. For AMD: hipify-perl cuda_attention.cu -o=cuda_attention.hip, which the build does,
// and nothing else.
#include <crossflash/hip.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kSeq = 200, kHeads = 4,
              kSize = 64;  // one sequence, tensors are (kSeq, kHeads, kSize)
constexpr int kElements = kSeq * kHeads * kSize;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("GPU runtime: %s\n", cudaGetErrorString(error));
  std::exit(1);
}
void check(crossflash_status status) {
  if (status == CROSSFLASH_OK) return;
  std::printf("crossflash: %s\n", crossflash_last_error());
  std::exit(1);
}

// Uniform in [-1, 1).
__global__ void fill(__half* x, unsigned seed) {
  const unsigned n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= kElements) return;
  unsigned bits = (n + seed * kElements) * 2654435761u;
  bits = (bits ^ (bits >> 15)) * 2246822519u;
  x[n] = __float2half(static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f);
}

enum Tensor { Q, K, V, O, DO, DQ, DK, DV, kTensors };
constexpr const char* kNames[kTensors] = {"q", "k", "v", "o", "do", "dq", "dk", "dv"};

// One head of each tensor, on the host: (kSeq, kSize).
struct Head {
  std::vector<double> x[kTensors];

  Head() { std::fill_n(x, kTensors, std::vector<double>(kSeq * kSize)); }
  double* row(Tensor tensor, int n) { return &x[tensor][n * kSize]; }
  double dot(Tensor a, int i, Tensor b, int j) {
    double sum = 0;
    for (int c = 0; c < kSize; ++c) sum += row(a, i)[c] * row(b, j)[c];
    return sum;
  }
  void add(Tensor to, int i, double factor, Tensor from, int j) {
    for (int c = 0; c < kSize; ++c) row(to, i)[c] += factor * row(from, j)[c];
  }

  // O, dQ, dK and dV of Q, K, V and dO under a causal mask, as the formulas have it.
  void attend() {
    const double scale = 1 / std::sqrt(static_cast<double>(kSize));
    for (int i = 0; i < kSeq; ++i) {
      std::vector<double> p(i + 1);
      double sum = 0;
      for (int j = 0; j <= i; ++j) sum += p[j] = std::exp(scale * dot(Q, i, K, j));
      for (int j = 0; j <= i; ++j) add(O, i, p[j] /= sum, V, j);
      const double D = dot(DO, i, O, i);
      for (int j = 0; j <= i; ++j) {
        const double ds = p[j] * (dot(DO, i, V, j) - D);
        add(DV, j, p[j], DO, i);
        add(DQ, i, scale * ds, K, j);
        add(DK, j, scale * ds, Q, i);
      }
    }
  }
};

}  // namespace

int main() {
  int gpus = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&gpus); error != cudaSuccess || gpus == 0) {
    std::printf("no GPU here: %s\n", cudaGetErrorString(error));
    return 2;
  }
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  __half* device[kTensors];
  for (__half*& tensor : device) check(cudaMalloc(&tensor, kElements * sizeof(__half)));
  for (const Tensor input : {Q, K, V, DO})
    fill<<<(kElements + 255) / 256, 256, 0, stream>>>(device[input], input);
  check(cudaGetLastError());

  crossflash_problem problem;
  crossflash_problem_init(&problem);
  problem.passes = CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD;
  problem.dtype = CROSSFLASH_F16;
  problem.batch = 1;
  problem.seq_q = problem.seq_k = kSeq;
  problem.heads_q = problem.heads_kv = kHeads;
  problem.d = problem.d_v = kSize;
  problem.causal = CROSSFLASH_CAUSAL_TOP_LEFT;
  crossflash_device* gpu = nullptr;
  crossflash_plan* plan = nullptr;
  check(crossflash_hip_device_open(0, &gpu));
  check(crossflash_plan_create(gpu, &problem, &plan));

  float* lse;
  void* workspace;  // of the program's own: both passes, one after the other
  check(cudaMalloc(&lse, kHeads * kSeq * sizeof(float)));
  check(cudaMalloc(&workspace, std::max(crossflash_plan_workspace(plan, CROSSFLASH_FORWARD),
                                        crossflash_plan_workspace(plan, CROSSFLASH_BACKWARD))));
  crossflash_args args{};
  args.struct_size = sizeof args;
  args.stream = stream;
  args.workspace = crossflash_hip_buffer(workspace);
  args.lse = crossflash_hip_buffer(lse);
  crossflash_buffer* const places[kTensors] = {
      &args.q, &args.k, &args.v, &args.o, &args.grad_o, &args.grad_q, &args.grad_k, &args.grad_v};
  for (int n = 0; n < kTensors; ++n) *places[n] = crossflash_hip_buffer(device[n]);
  check(crossflash_forward(plan, &args));
  check(crossflash_backward(plan, &args));

  std::vector<__half> host[kTensors];
  for (int n = 0; n < kTensors; ++n) {
    host[n].resize(kElements);
    check(cudaMemcpyAsync(host[n].data(), device[n], kElements * sizeof(__half),
                          cudaMemcpyDeviceToHost, stream));
  }
  check(cudaStreamSynchronize(stream));

  const int h = kHeads - 1;
  const auto element = [&](int n, int i) {
    return static_cast<double>(__half2float(host[n][(i / kSize * kHeads + h) * kSize + i % kSize]));
  };
  Head head;
  for (const Tensor input : {Q, K, V, DO})
    for (int i = 0; i < kSeq * kSize; ++i) head.x[input][i] = element(input, i);
  head.attend();
  bool right = true;
  for (const Tensor output : {O, DQ, DK, DV}) {
    double worst = 0;
    for (int i = 0; i < kSeq * kSize; ++i) {
      const double expected = head.x[output][i];
      const double off = std::fabs(element(output, i) - expected) / (1 + std::fabs(expected));
      worst = std::fmax(worst, off);
      right = right && off < 4e-3;  // f16 has 11 bits; NaN is wrong too
    }
    std::printf("%s: off by %.1e at most\n", kNames[output], worst);
  }
  std::printf("%s\n%s\n", crossflash_plan_describe(plan), right ? "all agree" : "WRONG");

  crossflash_plan_destroy(plan);
  crossflash_device_close(gpu);
  for (__half* tensor : device) check(cudaFree(tensor));
  check(cudaFree(lse));
  check(cudaFree(workspace));
  check(cudaStreamDestroy(stream));
  return right ? 0 : 1;
}
