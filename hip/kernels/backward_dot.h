// SPDX-License-Identifier: MIT
// backward_dot.h: D_i = dot(do_i, o_i) (FlashAttention, Algorithm 4, line 4; it equals
// sum_j dP_ij P_ij), as the diagonal of dO O^T by the product that makes dP = dO V^T. The two then
// round alike: where a query sees one key, dP - D is 0 as it must be, whatever the alignment of the
// tensors. Bound by memory, so the other fifteen columns cost nothing. Touching every query, it
// also readies the workspace of grad_all.
#pragma once

#include "hip/kernels/query_sums.h"
#include "hip/kernels/score.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct RowDotConfig {
  using T = T_;
  using Mma = typename Arch::template Mma<T>;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr int kWaves = 4;
  static constexpr int kThreads = kWaves * Mma::kWave;
  static constexpr int kRows = 16 * kWaves;  // Br
  static constexpr int kColumns = 64;        // of the head that are summed at a time
  using Tile = SharedTile<T, kRows, kColumns>;
  static constexpr int kSharedBytes = 2 * Tile::kBytes;
  static_assert(kRows % QuerySums::kUnit == 0 && kSharedBytes <= Arch::kSharedBytes);
};

template <class C>
__global__ void __launch_bounds__(C::kThreads) row_dot_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  const auto o_tile = space.take<typename C::Tile>();       // (Br, 64)
  const auto grad_o_tile = space.take<typename C::Tile>();  // (Br, 64)

  const QueryItem item(a, C::kRows);
  const Sequence<true> sequence(a, item.batch);
  const int seq_q = sequence.seq_q();
  if (item.first >= seq_q) return;
  const int batch = sequence.batch_q(item.batch);
  const int start = sequence.first_q();
  const auto o = head_rows<T>(a.o, batch, item.head, a.d_v, start);
  const auto grad_o = head_rows<T>(a.grad_o, batch, item.head, a.d_v, start);
  const int lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int wave_row = static_cast<int>(threadIdx.x) / Mma::kWave * 16;

  const bool for_grad_all = a.grad_q_sums.data != nullptr;
  if (for_grad_all)
    QuerySums(a, sequence, item.batch, item.head).clear<C::kThreads>(item.first, C::kRows);

  Fragment<Mma, 1, 1> products;  // dO O^T of the wave's rows
  products.clear();
#pragma unroll 1
  for (int x = 0; x < a.d_v; x += C::kColumns) {
    copy_in<C::kThreads>(o_tile, from_column(o, x), item.first, seq_q);
    copy_in<C::kThreads>(grad_o_tile, from_column(grad_o, x), item.first, seq_q);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    add_product(products, grad_o_tile, wave_row, o_tile, wave_row, lane);
    __syncthreads();  // before the next columns take their place
  }

  const auto rows_of = [&](const KernelRows& rows) {
    return head_values(rows, batch, item.head, start);
  };
  products.for_each([&](int, int, int v, float& x) {
    const int i = item.first + wave_row + Mma::row(lane, v);
    if (Mma::row(lane, v) != Mma::column(lane, v) || i >= seq_q) return;
    rows_of(a.delta)[i * a.delta.seq] = x;
    if (for_grad_all)
      rows_of(a.base)[i * a.base.seq] = backward_base(rows_of(a.lse)[i * a.lse.seq]);
  });
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
