// SPDX-License-Identifier: MIT
// backward_dkv_wide.h: dK and dV for head sizes whose tiles fit nowhere whole (wide.h). A block
// owns a tile of keys and a slice of either dK's or dV's columns, and walks as in backward_dkv.h.
// Both are a sum of weights times rows of the queries, dS^T Q or (P z)^T dO; only dK needs dP.
#pragma once

#include "hip/kernels/backward_dkv.h"
#include "hip/kernels/wide.h"

namespace crossflash::hip {

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    grad_kv_wide_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  DeepProduct<C> product(space);
  const auto value_tile = space.take<typename C::ValueTile>();  // (columns, slice), Q or dO
  float* const statistics = reinterpret_cast<float*>(space.next);
  const typename C::OutputTile sum_tile{reinterpret_cast<T*>(shared_memory)};

  const SliceItem part(KernelPass::grad_kv, C::kSlice, a);
  const KeyItem item(a, C::kRows, part.block);
  const int slices_of_k = (a.d + C::kSlice - 1) / C::kSlice;
  const bool of_k = part.slice < slices_of_k;
  const int x0 = (of_k ? part.slice : part.slice - slices_of_k) * C::kSlice;
  const int j0 = item.first;
  if (j0 >= sequence_of<C>(a, item.batch).written_k()) return;
  const float unit = score_unit<C::kGeneral>(a.score);

  const QueryWalk<C> walk(a, item);
  const int steps = walk.steps();
  using Tile = HeadTile<T>;
  const auto keys_of = [&](const KernelTensor& t, int width) {
    const auto own = sequence_of<C>(a, item.batch);
    return Tile(t, own.batch_k(item.batch), item.head_kv, width, j0, own.seq_k(), own.first_k());
  };
  const auto queries_of = [&](const KernelTensor& t, int width, int step) {
    const auto own = sequence_of<C>(a, item.batch);
    return Tile(t, own.batch_q(item.batch), walk.head(step), width, walk.first(step), own.seq_q(),
                own.first_q());
  };
  const auto k = [&] { return keys_of(a.k, a.d); };
  const auto v = [&] { return keys_of(a.v, a.d_v); };
  const auto q = [&](int step) { return queries_of(a.q, a.d, step); };
  const auto grad_o = [&](int step) { return queries_of(a.grad_o, a.d_v, step); };
  int next_step = walk.next_from(0);
  if (next_step < steps) product.start(k(), q(next_step));

  Fragment<Mma, C::kRowBlocks, C::kSlice / 16> sum;
  sum.clear();
#pragma unroll 1
  for (int step = next_step; step < steps; step = next_step) {
    walk.copy_statistics(step, statistics);
    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s, weights;
    s.clear();
    weights.clear();
    product.add(s, k(), q(step));  // S^T = K Q^T
    if (of_k) {
      product.start(v(), grad_o(step));
      product.add(weights, v(), grad_o(step));  // dP^T = V dO^T
    }
    const Tile values = of_k ? q(step) : grad_o(step);
    copy_in<C::kThreads>(value_tile, from_column(values.rows, x0), values.first, values.count);
    copy_commit();
    next_step = walk.next_from(step + 1);

    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int i0 = walk.first(step);
    const Place<Mma, false> place{i0, j0 + thread / Mma::kWave * C::kRowBlocks * 16, lane};
    const int head = walk.head(step);
    const bool full = tile_full<C>(a, item.batch, i0, i0 + C::kColumns, j0, j0 + C::kRows);
    hide_scores<C>(s, place, full, a, item.batch, head);
    with_terms<C>(a, item.batch, head, [&](auto term) {
      const auto differentiate = [&](int r, int c, int v_, float& x, float z) {
        const auto row = walk.statistics_at(step, statistics, 16 * c + Mma::column(lane, v_));
        float slope;
        const float p = probability<C::kGeneral>(a.score, s.x[r][c][v_], term(place, r, c, v_),
                                                 unit, row.base, slope) *
                        row.mend;
        x = of_k ? p * (kept_gradient<C::kGeneral>(x, z) - row.D) * slope : p * z;
      };
      if ((a.score.features & shared::CF_DROPOUT) != 0) {
        const auto flat = static_cast<shared::uint>(item.batch * a.heads_q + head);
        for_each_kept(weights, place, a, flat, differentiate);
      } else {
        weights.for_each([&](int r, int c, int v_, float& x) { differentiate(r, c, v_, x, 1.0f); });
      }
    });

    copy_wait<0>();
    __syncthreads();  // Q or dO is there, and the statistics no longer in use
    if (next_step < steps) product.start(k(), q(next_step));
    add_weighted(sum, weights, value_tile, 0, 0, lane);  // dK += dS^T Q, dV += (P z)^T dO
  }
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int wave_row = static_cast<int>(threadIdx.x) / Mma::kWave * C::kRowBlocks * 16;
  store_sum(sum, sum_tile, wave_row, 0, lane);
  __syncthreads();
  const Tile output = of_k ? keys_of(a.grad_k, a.d) : keys_of(a.grad_v, a.d_v);
  copy_out<C::kThreads>(sum_tile, from_column(output.rows, x0), j0,
                        sequence_of<C>(a, item.batch).written_k());
}

struct backward_dkv_wide {
  static constexpr const char* kName = "grad_kv_wide";
  static constexpr KernelPass kPass = KernelPass::grad_kv;
  static constexpr bool kEverySize = true;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = WideConfig<Arch, T, kHead, kGeneral, false>;
  template <class C>
  static auto kernel() {
    return &grad_kv_wide_kernel<C>;
  }
};

}  // namespace crossflash::hip
