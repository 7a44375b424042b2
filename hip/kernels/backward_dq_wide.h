// SPDX-License-Identifier: MIT
// backward_dq_wide.h: dQ for head sizes whose tiles fit nowhere whole (wide.h). A block owns a tile
// of queries and a slice of K's columns; what it does with them is backward_dq.h's, for any score.
#pragma once

#include "hip/kernels/score.h"
#include "hip/kernels/wide.h"

namespace crossflash::hip {

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    grad_q_wide_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  DeepProduct<C> product(space);
  const auto k_tile = space.take<typename C::ValueTile>();       // (Bc, slice)
  float* const row_base = reinterpret_cast<float*>(space.next);  // (Br)
  float* const row_D = row_base + C::kRows;                      // (Br)
  const typename C::OutputTile dq_tile{reinterpret_cast<T*>(shared_memory)};

  const SliceItem part(KernelPass::grad_q, C::kSlice, a);
  const QueryItem item(a, C::kRows, part.block);
  const int x0 = part.slice * C::kSlice;
  const int i0 = item.first;
  const int i1 = i0 + C::kRows < a.seq_q ? i0 + C::kRows : a.seq_q;
  const int seq_k = a.visibility.seq_k;
  using Tile = HeadTile<T>;
  const auto q = [&] { return Tile(a.q, item.batch, item.head, a.d, i0, a.seq_q); };
  const auto grad_o = [&] { return Tile(a.grad_o, item.batch, item.head, a.d_v, i0, a.seq_q); };
  const auto k = [&](int j0) { return Tile(a.k, item.batch, item.head_kv, a.d, j0, seq_k); };
  const auto v = [&](int j0) { return Tile(a.v, item.batch, item.head_kv, a.d_v, j0, seq_k); };
  const float unit = score_unit<C::kGeneral>(a.score);

  const int key_begin = shared::cf_keys_begin(a.visibility, i0) / C::kColumns * C::kColumns;
  const int key_end = shared::cf_keys_end(a.visibility, i1);
  if (key_begin < key_end) product.start(q(), k(key_begin));

  const float* lse = head_values(a.lse, item.batch, item.head);
  const float* delta = head_values(a.delta, item.batch, item.head);
  for (int n = static_cast<int>(threadIdx.x); n < C::kRows; n += C::kThreads) {
    const int i = i0 + n;
    row_base[n] = backward_base(i < a.seq_q ? lse[i * a.lse.seq] : shared::cf_neg_inf());
    row_D[n] = i < a.seq_q ? delta[i * a.delta.seq] : 0.0f;
  }
  RowValues<Mma, C::kRowBlocks> sum;  // this lane's share of the row sums of P
  sum.fill(0.0f);
  Fragment<Mma, C::kRowBlocks, C::kSlice / 16> dq;
  dq.clear();

#pragma unroll 1
  for (int j0 = key_begin; j0 < key_end; j0 += C::kColumns) {
    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s, ds;
    s.clear();
    ds.clear();
    product.add(s, q(), k(j0));  // S = Q K^T
    product.start(grad_o(), v(j0));
    product.add(ds, grad_o(), v(j0));  // dP = dO V^T
    copy_in<C::kThreads>(k_tile, from_column(k(j0).rows, x0), j0, seq_k);
    copy_commit();

    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = thread / Mma::kWave * C::kRowBlocks * 16;
    const Place<Mma, true> place{i0 + wave_row, j0, lane};
    if (!shared::cf_tile_full(a.visibility, i0, i1, j0, j0 + C::kColumns))
      mask_scores(s, place, a.visibility, a.seq_q);
    if ((a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(ds, place, a, item.flat(a),
                    [](int, int, int, float& x, float z) { x = kept_gradient<C::kGeneral>(x, z); });
    RowValues<Mma, C::kRowBlocks> base, D, tile_sum;
    base.for_each([&](int r, int slot, float& x) {
      const int row = wave_row + slot_row<Mma>(r, slot, lane);
      x = row_base[row];
      D.x[r][slot] = row_D[row];
    });
    tile_sum.fill(0.0f);
    ds.for_each([&](int r, int c, int v_, float& x) {
      const int slot = Mma::slot(v_);
      float slope;
      const float p =
          probability<C::kGeneral>(a.score, s.x[r][c][v_], 0.0f, unit, base.x[r][slot], slope);
      tile_sum.x[r][slot] += p;
      x = p * (x - D.x[r][slot]) * slope;
    });
    sum.for_each([&](int r, int slot, float& x) { x += tile_sum.x[r][slot]; });

    copy_wait<0>();
    __syncthreads();  // K is there
    if (j0 + C::kColumns < key_end) product.start(q(), k(j0 + C::kColumns));
    add_weighted(dq, ds, k_tile, 0, 0, lane);  // dQ += dS K
  }
  __syncthreads();

  const int own_lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int own_row = static_cast<int>(threadIdx.x) / Mma::kWave * C::kRowBlocks * 16;
  float* mend = head_values(a.mend, item.batch, item.head);
  sum.for_each([&](int r, int slot, float& x) {
    const int i = i0 + own_row + slot_row<Mma>(r, slot, own_lane);
    const float row_lse = i < a.seq_q ? lse[i * a.lse.seq] : shared::cf_neg_inf();
    x = shared::cf_mend_row(Mma::row_sum(x), row_lse);
    if (part.slice == 0 && i < a.seq_q && Mma::column(own_lane, 0) == 0) mend[i * a.mend.seq] = x;
  });
  dq.for_each([&](int r, int, int v_, float& x) { x *= sum.x[r][Mma::slot(v_)]; });
  store_sum(dq, dq_tile, own_row, 0, own_lane);
  __syncthreads();
  const auto grad_q = head_rows<T>(a.grad_q, item.batch, item.head, a.d);
  copy_out<C::kThreads>(dq_tile, from_column(grad_q, x0), i0, a.seq_q);
}

struct backward_dq_wide {
  static constexpr const char* kName = "grad_q_wide";
  static constexpr KernelPass kPass = KernelPass::grad_q;
  static constexpr bool kEverySize = true;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = WideConfig<Arch, T, kHead, kGeneral, false>;
  template <class C>
  static auto kernel() {
    return &grad_q_wide_kernel<C>;
  }
};

}  // namespace crossflash::hip
