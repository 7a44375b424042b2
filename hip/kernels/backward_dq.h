// SPDX-License-Identifier: MIT
// backward_dq.h: dQ. A block owns a tile of queries and walks over the keys they see
// (FlashAttention, Algorithm 4 with FlashAttention-2's loop order); a wave owns rows of the tile.
// This pass alone sees whole rows of P, so it leaves the factors that dK/dV mends them with
// (softmax.h).
#pragma once

#include "hip/kernels/item.h"
#include "hip/kernels/score.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct GradQueryConfig {
  using T = T_;
  static constexpr int kHead = kHead_;
  using Mma = typename Arch::template Mma<T, kHead>;
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
  const int i0 = item.first;
  const int i1 = i0 + C::kRows < a.seq_q ? i0 + C::kRows : a.seq_q;
  const int seq_k = a.visibility.seq_k;
  const auto k = head_rows<T>(a.k, item.batch, item.head_kv, a.d);
  const auto v = head_rows<T>(a.v, item.batch, item.head_kv, a.d_v);
  const int own_lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int own_row = static_cast<int>(threadIdx.x) / Mma::kWave * C::kRowBlocks * 16;
  const float unit = score_unit<C::kGeneral>(a.score);

  const int key_begin = shared::cf_keys_begin(a.visibility, i0) / C::kColumns * C::kColumns;
  const int key_end = shared::cf_keys_end(a.visibility, i1);
  copy_in<C::kThreads>(q_tile, head_rows<T>(a.q, item.batch, item.head, a.d), i0, a.seq_q);
  copy_in<C::kThreads>(grad_o_tile, head_rows<T>(a.grad_o, item.batch, item.head, a.d_v), i0,
                       a.seq_q);
  copy_in<C::kThreads>(k_ring.at(0), k, key_begin, seq_k);
  copy_in<C::kThreads>(v_ring.at(0), v, key_begin, seq_k);
  copy_commit();

  const float* lse = head_values(a.lse, item.batch, item.head);
  const float* delta = head_values(a.delta, item.batch, item.head);
  RowValues<Mma, C::kRowBlocks> base, D, sum;  // sum: this lane's share of the row sums of P
  base.for_each([&](int r, int slot, float& x) {
    const int i = i0 + own_row + slot_row<Mma>(r, slot, own_lane);
    x = backward_base(i < a.seq_q ? lse[i * a.lse.seq] : shared::cf_neg_inf());
    D.x[r][slot] = i < a.seq_q ? delta[i * a.delta.seq] : 0.0f;
  });
  sum.fill(0.0f);
  Fragment<Mma, C::kRowBlocks, C::kHead / 16> dq;
  dq.clear();

  int stage = 0;
#pragma unroll 1
  for (int j0 = key_begin; j0 < key_end; j0 += C::kColumns, stage = (stage + 1) % C::kStages) {
    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = thread / Mma::kWave * C::kRowBlocks * 16;
    copy_wait<0>();
    __syncthreads();  // K and V are there, and the tiles before no longer in use
    const auto k_tile = k_ring.at(stage);
    const auto v_tile = v_ring.at(stage);
    const auto copy_next = [&] {
      if (j0 + C::kColumns >= key_end) return;
      copy_in<C::kThreads>(k_ring.at((stage + 1) % C::kStages), k, j0 + C::kColumns, seq_k);
      copy_in<C::kThreads>(v_ring.at((stage + 1) % C::kStages), v, j0 + C::kColumns, seq_k);
      copy_commit();
    };
    if constexpr (C::kStages > 1) copy_next();

    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s, ds;
    s.clear();
    ds.clear();
    add_product(s, q_tile, wave_row, k_tile, 0, lane);        // S = Q K^T
    add_product(ds, grad_o_tile, wave_row, v_tile, 0, lane);  // dP = dO V^T

    const Place<Mma, true> place{i0 + wave_row, j0, lane};
    if (!shared::cf_tile_full(a.visibility, i0, i1, j0, j0 + C::kColumns))
      mask_scores(s, place, a.visibility, a.seq_q);
    if (C::kGeneral && (a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(ds, place, a, item.flat(a),
                    [](int, int, int, float& x, float z) { x = kept_gradient<C::kGeneral>(x, z); });
    RowValues<Mma, C::kRowBlocks> tile_sum;
    tile_sum.fill(0.0f);
    ds.for_each([&](int r, int c, int v_, float& x) {
      const int slot = Mma::slot(v_);
      float slope;
      const float p =
          probability<C::kGeneral>(a.score, s.x[r][c][v_], unit, base.x[r][slot], slope);
      tile_sum.x[r][slot] += p;
      x = p * (x - D.x[r][slot]) * slope;
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

  float* mend = head_values(a.mend, item.batch, item.head);
  const float last = gradient_unit<C::kGeneral>(a.score);
  sum.for_each([&](int r, int slot, float& x) {
    const int i = i0 + own_row + slot_row<Mma>(r, slot, own_lane);
    const float row_lse = i < a.seq_q ? lse[i * a.lse.seq] : shared::cf_neg_inf();
    x = shared::cf_mend_row(Mma::row_sum(x), row_lse);
    if (i < a.seq_q && Mma::column(own_lane, 0) == 0) mend[i * a.mend.seq] = x;
  });
  dq.for_each([&](int r, int, int v_, float& x) { x *= sum.x[r][Mma::slot(v_)] * last; });
  store_sum(dq, q_tile, own_row, 0, own_lane);
  __syncthreads();
  copy_out<C::kThreads>(q_tile, head_rows<T>(a.grad_q, item.batch, item.head, a.d), i0, a.seq_q);
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
