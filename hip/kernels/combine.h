// SPDX-License-Identifier: MIT
// combine.h: the states (m, l, o) that forward_split left for the stretches of the keys become O
// and LSE, by the combine operator. A block owns a row; its threads stand in a grid of columns by
// every kSide-th stretch. Each sum has one order, so that results do not change from run to run.
#pragma once

#include "hip/kernels/item.h"
#include "hip/kernels/score.h"
#include "hip/tile/block.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct CombineConfig {
  using T = T_;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr int kRows = 1;
  static constexpr int kColumns = 64;  // of O at a time
  static constexpr int kSide = 4;      // stretches of the keys at a time
  static constexpr int kThreads = kColumns * kSide;
  static constexpr int kSharedBytes = 0;
  static_assert(kThreads > kMostSplits);  // and the sink
};

template <class C>
__global__ void __launch_bounds__(C::kThreads) combine_kernel(const KernelArguments a) {
  using T = typename C::T;
  using States = Block<SoftmaxState, C::kThreads>;
  __shared__ typename States::Storage storage;
  __shared__ float factors[kMostSplits];  // what brings each stretch's l and o to the row's m
  __shared__ float o_of[C::kSide][C::kColumns];
  const int thread = static_cast<int>(threadIdx.x);
  const QueryItem item(a, C::kRows);
  const Sequence<true> sequence(a, item.batch);
  const int i = item.first;
  if (i >= sequence.written_q()) return;
  const bool there = i < sequence.seq_q();  // or else padding
  SoftmaxState part = empty_state();
  if (thread < a.splits && there) {
    const float* const from = split_state(a, thread, item.batch, item.head, i);
    part = {from[0], from[1]};
  }
  if (thread == a.splits && there && (a.score.features & shared::CF_SINK) != 0) {
    const float sink = a.options.sink[item.head];
    if (!shared::cf_is_neg_inf(sink)) part = {sink, 1.0f};
  }
  const SoftmaxState row = States(storage).reduce(part, CombineStates{a.state_unit});
  if (thread < a.splits) factors[thread] = rescale(part.m, row.m, a.state_unit);
  const int batch = sequence.batch_q(item.batch);
  if (thread == 0)
    head_values(a.lse, batch, item.head, sequence.first_q())[i * a.lse.seq] =
        shared::cf_lse(row.m * a.state_unit, row.l);
  __syncthreads();

  const auto o_rows = head_rows<T>(a.o, batch, item.head, a.d_v, sequence.first_q());
  T* const o_row = o_rows.data + i * a.o.seq;
  const int side = thread / C::kColumns;
  for (int c0 = 0; c0 < a.d_v; c0 += C::kColumns) {
    const int column = c0 + thread % C::kColumns;
    float o = 0.0f;
    if (column < a.d_v && there)
#pragma unroll 8
      for (int n = side; n < a.splits; n += C::kSide)
        o += split_state(a, n, item.batch, item.head, i)[2 + column] * factors[n];
    o_of[side][thread % C::kColumns] = o;
    __syncthreads();
    if (side == 0 && column < a.d_v) {
      for (int n = 1; n < C::kSide; ++n) o += o_of[n][thread];
      o *= shared::cf_inverse_sum(row.l);
      store_run<1>(o_row + column, &o);
    }
    __syncthreads();
  }
}

struct combine {
  static constexpr const char* kName = "combine";
  static constexpr KernelPass kPass = KernelPass::combine;
  static constexpr bool kEverySize = true;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = CombineConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &combine_kernel<C>;
  }
};

}  // namespace crossflash::hip
