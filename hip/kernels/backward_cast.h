// SPDX-License-Identifier: MIT
// backward_cast.h: dQ, of any strides, from the sums that grad_all left in the workspace. Bound by
// memory.
#pragma once

#include "hip/kernels/query_sums.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct CastConfig {
  using T = T_;
  using Mma = typename Arch::template Mma<T>;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr int kWaves = 4;
  static constexpr int kThreads = kWaves * Mma::kWave;
  static constexpr int kRows = 16 * kWaves;          // Br
  static constexpr int kColumns = QuerySums::kUnit;  // of the head at a time
  using Tile = SharedTile<T, kRows, kColumns>;
  static constexpr int kSharedBytes = Tile::kBytes;
  static_assert(kRows % QuerySums::kUnit == 0 && kSharedBytes <= Arch::kSharedBytes);
};

template <class C>
__global__ void __launch_bounds__(C::kThreads) cast_grad_q_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  const auto tile = space.take<typename C::Tile>();  // (Br, 64)

  const QueryItem item(a, C::kRows);
  const Sequence<true> sequence(a, item.batch);
  const int end = sequence.written_q();
  if (item.first >= end) return;
  const auto grad_q =
      head_rows<T>(a.grad_q, sequence.batch_q(item.batch), item.head, a.d, sequence.first_q());
  const QuerySums sums(a, sequence, item.batch, item.head);
  const int lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int wave_row = static_cast<int>(threadIdx.x) / Mma::kWave * 16;

#pragma unroll 1
  for (int x = 0; x < a.d; x += C::kColumns) {
    Fragment<Mma, 1, C::kColumns / 16> dq;
    dq.clear();  // of padding, where there are no sums
    if (QuerySums::holds(item.first, sequence.seq_q()))
      sums.read(dq, item.first + wave_row, x, lane);
    store_sum(dq, tile, wave_row, 0, lane);
    __syncthreads();
    copy_out<C::kThreads>(tile, from_column(grad_q, x), item.first, end);
    __syncthreads();  // before the next columns take their place
  }
}

struct backward_cast {
  static constexpr const char* kName = "cast_grad_q";
  static constexpr KernelPass kPass = KernelPass::cast_grad_q;
  static constexpr bool kEverySize = true;  // one kernel for all head sizes and features
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = CastConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &cast_grad_q_kernel<C>;
  }
};

}  // namespace crossflash::hip
