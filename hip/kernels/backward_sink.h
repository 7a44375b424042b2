// SPDX-License-Identifier: MIT
// backward_sink.h: the gradient of the sinks, -sum exp(sink_h - lse_i) D_i over all queries of a
// head: a sink is a key with value 0, so its dP is 0, and it has no other gradient. A block owns a
// head; a thread takes every kThreads-th query, sequence after sequence, so the order is one.
#pragma once

#include "hip/kernels/item.h"
#include "hip/kernels/score.h"
#include "hip/tile/block.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct GradSinkConfig {
  using T = T_;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr int kThreads = 512;
  static constexpr int kRows = kThreads;  // queries at a time
  static constexpr int kColumns = 1;      // the sink
  static constexpr int kSharedBytes = 0;
};

struct AddFloats {
  CF_DEVICE float operator()(float x, float y) const { return x + y; }
};

template <class C>
__global__ void __launch_bounds__(C::kThreads) grad_sink_kernel(const KernelArguments a) {
  using Sum = Block<float, C::kThreads>;
  __shared__ typename Sum::Storage storage;
  const int head = static_cast<int>(blockIdx.x);
  const float sink = a.options.sink[head];
  float sum = 0.0f;
  for (int batch = 0; batch < a.batch; ++batch) {
    const Sequence<true> sequence(a, batch);
    const auto values_of = [&](const KernelRows& t) {
      return head_values(t, sequence.batch_q(batch), head, sequence.first_q());
    };
    const float* const lse = values_of(a.lse);
    const float* const delta = values_of(a.delta);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < sequence.seq_q(); i += C::kThreads)
      sum -= shared::cf_weight(sink, lse[i * a.lse.seq]) * delta[i * a.delta.seq];
  }
  sum = Sum(storage).reduce(sum, AddFloats{});
  if (threadIdx.x == 0) a.options.grad_sink[head] = sum;
}

struct backward_sink {
  static constexpr const char* kName = "grad_sink";
  static constexpr KernelPass kPass = KernelPass::grad_sink;
  static constexpr bool kEverySize = true;  // one kernel for all head sizes and features
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = GradSinkConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &grad_sink_kernel<C>;
  }
};

}  // namespace crossflash::hip
