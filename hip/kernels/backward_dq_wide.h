// SPDX-License-Identifier: MIT
// backward_dq_wide.h: dQ for head sizes whose tiles fit nowhere whole (wide.h). A block owns a tile
// of queries and a slice of K's columns; what it does with them is backward_dq.h's, for any score.
#pragma once

#include "hip/kernels/backward_score.h"
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
  const Sequence<true> sequence(a, item.batch);
  const int x0 = part.slice * C::kSlice;
  const int i0 = item.first;
  if (i0 >= sequence.written_q()) return;
  const int seq_q = sequence.seq_q();
  const int i1 = i0 + C::kRows < seq_q ? i0 + C::kRows : seq_q;
  using Tile = HeadTile<T>;
  const auto queries_of = [&](const KernelTensor& t, int width) {
    const auto own = sequence_of<C>(a, item.batch);
    return Tile(t, own.batch_q(item.batch), item.head, width, i0, own.seq_q(), own.first_q());
  };
  const auto keys_of = [&](const KernelTensor& t, int width, int j0) {
    const auto own = sequence_of<C>(a, item.batch);
    return Tile(t, own.batch_k(item.batch), item.head_kv, width, j0, own.seq_k(), own.first_k());
  };
  const auto values_of = [&](const KernelRows& t) {
    const auto own = sequence_of<C>(a, item.batch);
    return head_values(t, own.batch_q(item.batch), item.head, own.first_q());
  };
  const auto q = [&] { return queries_of(a.q, a.d); };
  const auto grad_o = [&] { return queries_of(a.grad_o, a.d_v); };
  const auto k = [&](int j0) { return keys_of(a.k, a.d, j0); };
  const auto v = [&](int j0) { return keys_of(a.v, a.d_v, j0); };
  const float unit = score_unit<C::kGeneral>(a.score);

  const shared::cf_visibility& visibility = sequence.visibility();
  const int key_end = i0 < seq_q ? shared::cf_keys_end(visibility, i1) : 0;
  // The first tile of keys from this one on that the mask leaves anything of.
  const auto next_from = [&](int j) {
    while (j < key_end && !tile_seen<C, C::kRows, C::kColumns>(a, item.batch, item.head, i0, j))
      j += C::kColumns;
    return j;
  };
  const int key_begin =
      next_from(shared::cf_keys_begin(visibility, i0) / C::kColumns * C::kColumns);
  if (key_begin < key_end) product.start(q(), k(key_begin));

  const float* lse = values_of(a.lse);
  const float* delta = values_of(a.delta);
  for (int n = static_cast<int>(threadIdx.x); n < C::kRows; n += C::kThreads) {
    const int i = i0 + n;
    row_base[n] = backward_base(i < seq_q ? lse[i * a.lse.seq] : shared::cf_neg_inf());
    row_D[n] = i < seq_q ? delta[i * a.delta.seq] : 0.0f;
  }
  RowValues<Mma, C::kRowBlocks> sum;  // this lane's share of the row sums of P
  sum.fill(0.0f);
  Fragment<Mma, C::kRowBlocks, C::kSlice / 16> dq;
  dq.clear();

  int next = key_begin;
#pragma unroll 1
  for (int j0 = key_begin; j0 < key_end; j0 = next) {
    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s, ds;
    s.clear();
    ds.clear();
    product.add(s, q(), k(j0));  // S = Q K^T
    product.start(grad_o(), v(j0));
    product.add(ds, grad_o(), v(j0));  // dP = dO V^T
    copy_columns<C::kThreads>(k_tile, k(j0), x0);
    copy_commit();
    next = next_from(j0 + C::kColumns);

    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = thread / Mma::kWave * C::kRowBlocks * 16;
    const Place<Mma, true> place{i0 + wave_row, j0, lane};
    const bool full = tile_full<C>(a, item.batch, i0, i0 + C::kRows, j0, j0 + C::kColumns);
    hide_scores<C>(s, place, full, a, item.batch, item.head);
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
    with_terms<C>(a, item.batch, item.head, [&](auto term) {
      ds.for_each([&](int r, int c, int v_, float& x) {
        const int slot = Mma::slot(v_);
        float slope;
        const float p = probability<C::kGeneral>(a.score, s.x[r][c][v_], term(place, r, c, v_),
                                                 unit, base.x[r][slot], slope);
        tile_sum.x[r][slot] += p;
        x = p * (x - D.x[r][slot]) * slope;
      });
    });
    sum.for_each([&](int r, int slot, float& x) { x += tile_sum.x[r][slot]; });

    copy_wait<0>();
    __syncthreads();  // K is there
    if (next < key_end) product.start(q(), k(next));
    add_weighted(dq, ds, k_tile, 0, 0, lane);  // dQ += dS K
  }
  __syncthreads();

  const int own_lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int own_row = static_cast<int>(threadIdx.x) / Mma::kWave * C::kRowBlocks * 16;
  float* mend = values_of(a.mend);
  const int end = sequence_of<C>(a, item.batch).seq_q();
  sum.for_each([&](int r, int slot, float& x) {
    const int i = i0 + own_row + slot_row<Mma>(r, slot, own_lane);
    const float row_lse = i < end ? values_of(a.lse)[i * a.lse.seq] : shared::cf_neg_inf();
    x = Mma::row_sum(x);
    if (i < end) x += sink_weight(a, item.head, row_lse);
    x = shared::cf_mend_row(x, row_lse);
    if (part.slice == 0 && i < end && Mma::column(own_lane, 0) == 0) mend[i * a.mend.seq] = x;
  });
  dq.for_each([&](int r, int, int v_, float& x) { x *= sum.x[r][Mma::slot(v_)]; });
  store_sum(dq, dq_tile, own_row, 0, own_lane);
  __syncthreads();
  copy_out<C::kThreads>(dq_tile, from_column(queries_of(a.grad_q, a.d).rows, x0), i0,
                        sequence_of<C>(a, item.batch).written_q());
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
