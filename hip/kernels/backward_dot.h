// SPDX-License-Identifier: MIT
// backward_dot.h: D_i = dot(do_i, o_i) (FlashAttention, Algorithm 4, line 4; it equals
// sum_j dP_ij P_ij). Sixteen neighbouring lanes read a row together; bound by memory.
#pragma once

#include "hip/kernels/item.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct RowDotConfig {
  using T = T_;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr int kThreads = 256;
  static constexpr int kRowThreads = 16;
  static constexpr int kRows = kThreads / kRowThreads;
  static constexpr int kColumns = kHead;
  static constexpr int kSharedBytes = 0;
};

template <class T>
CF_DEVICE float chunk_dot(const T* a, const T* b) {
  struct alignas(16) Chunk {
    T x[16 / sizeof(T)];
  };
  const Chunk ca = *reinterpret_cast<const Chunk*>(a);
  const Chunk cb = *reinterpret_cast<const Chunk*>(b);
  float dot = 0.0f;
#pragma unroll
  for (int n = 0; n < static_cast<int>(16 / sizeof(T)); ++n)
    dot = fmaf(to_float(ca.x[n]), to_float(cb.x[n]), dot);
  return dot;
}

template <class C>
__global__ void __launch_bounds__(C::kThreads) row_dot_kernel(const KernelArguments a) {
  using T = typename C::T;
  constexpr int kChunk = 16 / sizeof(T);
  const QueryItem item(a, C::kRows);
  const int i = item.first + static_cast<int>(threadIdx.x) / C::kRowThreads;
  const int lane = static_cast<int>(threadIdx.x) % C::kRowThreads;
  const bool inside = i < a.seq_q;
  const auto o = head_rows<T>(a.o, item.batch, item.head, a.d_v);
  const auto grad_o = head_rows<T>(a.grad_o, item.batch, item.head, a.d_v);
  const T* o_row = o.data + i * o.stride;
  const T* grad_o_row = grad_o.data + i * grad_o.stride;

  float dot = 0.0f;
  if (inside && o.aligned && grad_o.aligned) {
    for (int x = lane * kChunk; x < a.d_v; x += C::kRowThreads * kChunk)
      dot += chunk_dot(o_row + x, grad_o_row + x);
  } else if (inside) {
    for (int x = lane; x < a.d_v; x += C::kRowThreads)
      dot = fmaf(to_float(o_row[x]), to_float(grad_o_row[x]), dot);
  }
#pragma unroll
  for (int step = 1; step < C::kRowThreads; step *= 2) dot += shuffle_xor(dot, step);
  if (inside && lane == 0) head_values(a.delta, item.batch, item.head)[i * a.delta.seq] = dot;
}

struct backward_dot {
  static constexpr const char* kName = "row_dot";
  static constexpr KernelPass kPass = KernelPass::row_dot;
  static constexpr bool kEverySize = true;  // one kernel for all head sizes and features
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = RowDotConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &row_dot_kernel<C>;
  }
};

}  // namespace crossflash::hip
