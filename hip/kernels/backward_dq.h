// SPDX-License-Identifier: MIT
// backward_dq.h: dQ. A block owns a tile of queries and walks over the keys they see
// (FlashAttention, Algorithm 4 with FlashAttention-2's loop order); a wave owns rows of the tile.
// This pass alone sees whole rows of P, so it leaves the factors that dK/dV mends them with
// (softmax.h).
#pragma once

#include "hip/kernels/backward_score.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct GradQueryConfig {
  using T = T_;
  using Mma = typename Arch::template Mma<T>;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr auto kTile = Arch::grad_q_tile(static_cast<int>(sizeof(T)), kHead, kGeneral);
  static constexpr int kRows = kTile.rows;        // Br
  static constexpr int kColumns = kTile.columns;  // Bc
  static constexpr int kStages = kTile.stages;
  static constexpr int kThreads = kTile.waves * Mma::kWave;
  static constexpr int kMinBlocks = kTile.blocks;
  static constexpr int kRowBlocks = kRows / (16 * kTile.waves);  // of a wave
  using QueryTile = SharedTile<T, kRows, kHead>;
  using KeyTile = SharedTile<T, kColumns, kHead>;
  static constexpr bool kSharedWeights = kTile.shared_weights;
  using WeightTile = SharedTile<T, kRows, kSharedWeights ? kColumns : 64>;
  static constexpr int kSharedBytes = 2 * QueryTile::kBytes + 2 * kStages * KeyTile::kBytes +
                                      (kSharedWeights ? WeightTile::kBytes : 0);
  static_assert(kRowBlocks * 16 * kTile.waves == kRows && kColumns % 16 == 0);
  static_assert(kSharedBytes <= Arch::kSharedBytes);
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    grad_q_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  const auto q_tile = space.take<typename C::QueryTile>();          // (Br, D), in the end dQ
  const auto grad_o_tile = space.take<typename C::QueryTile>();     // (Br, D)
  const SharedRing<typename C::KeyTile, C::kStages> k_ring{space};  // (Bc, D)
  const SharedRing<typename C::KeyTile, C::kStages> v_ring{space};  // (Bc, D)
  typename C::WeightTile ds_tile{};                                 // (Br, Bc)
  if constexpr (C::kSharedWeights) ds_tile = space.take<typename C::WeightTile>();

  const QueryItem item(a, C::kRows);
  const Sequence<C::kGeneral> sequence(a, item.batch);
  const int i0 = item.first;
  if (C::kGeneral && i0 >= sequence.written_q()) return;
  const int seq_k = sequence.seq_k();
  const int i1 = i0 + C::kRows < sequence.seq_q() ? i0 + C::kRows : sequence.seq_q();
  const auto queries_of = [&](const KernelTensor& t, int width) {
    return head_rows<T>(t, sequence.batch_q(item.batch), item.head, width, sequence.first_q());
  };
  const auto keys_of = [&](const KernelTensor& t, int width) {
    return head_rows<T>(t, sequence.batch_k(item.batch), item.head_kv, width, sequence.first_k());
  };
  const auto values_of = [&](const KernelRows& t) {
    return head_values(t, sequence.batch_q(item.batch), item.head, sequence.first_q());
  };
  const auto k = keys_of(a.k, a.d);
  const auto v = keys_of(a.v, a.d_v);
  const int own_lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int own_row = static_cast<int>(threadIdx.x) / Mma::kWave * C::kRowBlocks * 16;
  const float unit = score_unit<C::kGeneral>(a.score);

  const shared::cf_visibility& visibility = C::kGeneral ? sequence.visibility() : a.visibility;
  int key_begin = shared::cf_keys_begin(visibility, i0) / C::kColumns * C::kColumns;
  const int key_end =
      i0 < sequence.seq_q() || !C::kGeneral ? shared::cf_keys_end(visibility, i1) : 0;
  // The first tile of keys from this one on that the mask leaves anything of.
  const auto next_from = [&](int j) {
    while (j < key_end && !tile_seen<C, C::kRows, C::kColumns>(a, item.batch, item.head, i0, j))
      j += C::kColumns;
    return j;
  };
  key_begin = next_from(key_begin);
  if (!C::kGeneral || key_begin < key_end) {
    copy_in<C::kThreads>(q_tile, queries_of(a.q, a.d), i0, sequence.seq_q());
    copy_in<C::kThreads>(grad_o_tile, queries_of(a.grad_o, a.d_v), i0, sequence.seq_q());
    copy_in<C::kThreads>(k_ring.at(0), k, key_begin, seq_k);
    copy_in<C::kThreads>(v_ring.at(0), v, key_begin, seq_k);
    copy_commit();
  }

  const float* lse = values_of(a.lse);
  const float* delta = values_of(a.delta);
  RowValues<Mma, C::kRowBlocks> base, D, sum;  // sum: this lane's share of the row sums of P
  base.for_each([&](int r, int slot, float& x) {
    const int i = i0 + own_row + slot_row<Mma>(r, slot, own_lane);
    x = backward_base(i < sequence.seq_q() ? lse[i * a.lse.seq] : shared::cf_neg_inf());
    D.x[r][slot] = i < sequence.seq_q() ? delta[i * a.delta.seq] : 0.0f;
  });
  sum.fill(0.0f);
  Fragment<Mma, C::kRowBlocks, C::kHead / 16> dq;
  dq.clear();

  int stage = 0;
  int unhidden = key_begin;
  const auto next = [&](int j0) { return C::kGeneral ? unhidden : j0 + C::kColumns; };
#pragma unroll 1
  for (int j0 = key_begin; j0 < key_end; j0 = next(j0), stage = (stage + 1) % C::kStages) {
    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = thread / Mma::kWave * C::kRowBlocks * 16;
    copy_wait<0>();
    __syncthreads();  // K and V are there, and the tiles before no longer in use
    const auto k_tile = k_ring.at(stage);
    const auto v_tile = v_ring.at(stage);
    unhidden = next_from(j0 + C::kColumns);
    const auto copy_next = [&] {
      if (next(j0) >= key_end) return;
      copy_in<C::kThreads>(k_ring.at((stage + 1) % C::kStages), k, next(j0), seq_k);
      copy_in<C::kThreads>(v_ring.at((stage + 1) % C::kStages), v, next(j0), seq_k);
      copy_commit();
    };
    if constexpr (C::kStages > 1) copy_next();

    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s, ds;
    s.clear();
    ds.clear();
    add_product(s, q_tile, wave_row, k_tile, 0, lane);        // S = Q K^T
    add_product(ds, grad_o_tile, wave_row, v_tile, 0, lane);  // dP = dO V^T

    const Place<Mma, true> place{i0 + wave_row, j0, lane};
    const int j1 = j0 + C::kColumns;
    const bool full = C::kGeneral ? tile_full<C>(a, item.batch, i0, i0 + C::kRows, j0, j1)
                                  : shared::cf_tile_full(a.visibility, i0, i1, j0, j1);
    hide_scores<C>(s, place, full, a, item.batch, item.head);
    if (C::kGeneral && (a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(ds, place, a, item.flat(a),
                    [](int, int, int, float& x, float z) { x = kept_gradient<C::kGeneral>(x, z); });
    RowValues<Mma, C::kRowBlocks> tile_sum;
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
    if constexpr (C::kSharedWeights) {
      store_fragment(ds, ds_tile, wave_row, 0, lane);
      wave_fence();
      add_product_across(dq, ds_tile, wave_row, k_tile, 0, lane);  // dQ += dS K
      wave_fence();
    } else {
      add_weighted(dq, ds, k_tile, 0, 0, lane);  // dQ += dS K
    }

    if constexpr (C::kStages == 1) {
      __syncthreads();
      copy_next();
    }
  }
  copy_wait<0>();
  __syncthreads();

  float* mend = values_of(a.mend);
  const float last = gradient_unit<C::kGeneral>(a.score);
  sum.for_each([&](int r, int slot, float& x) {
    const int i = i0 + own_row + slot_row<Mma>(r, slot, own_lane);
    const float row_lse = i < sequence.seq_q() ? lse[i * a.lse.seq] : shared::cf_neg_inf();
    x = Mma::row_sum(x);
    if constexpr (C::kGeneral)
      if (i < sequence.seq_q()) x += sink_weight(a, item.head, row_lse);
    x = shared::cf_mend_row(x, row_lse);
    if (i < sequence.seq_q() && Mma::column(own_lane, 0) == 0) mend[i * a.mend.seq] = x;
  });
  dq.for_each([&](int r, int, int v_, float& x) { x *= sum.x[r][Mma::slot(v_)] * last; });
  store_sum(dq, q_tile, own_row, 0, own_lane);
  __syncthreads();
  copy_out<C::kThreads>(q_tile, queries_of(a.grad_q, a.d), i0, sequence.written_q());
}

struct backward_dq {
  static constexpr const char* kName = "grad_q";
  static constexpr KernelPass kPass = KernelPass::grad_q;
  static constexpr bool kEverySize = false;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = GradQueryConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &grad_q_kernel<C>;
  }
};

}  // namespace crossflash::hip
