// SPDX-License-Identifier: MIT
// backward_dkv.h: dK and dV. A block owns a tile of keys, which are the rows here, and walks over
// the query heads of the group and the queries that see it (FlashAttention, Algorithm 4). No
// atomics: each sum has one owner and one order. Waves stand in a grid over the tile; where they
// stand side by side, each computes S and dP for its columns, hands P and dS to its neighbours
// through shared memory and sums its part of the head size (dK and dV are many registers).
#pragma once

#include "hip/kernels/backward_score.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct GradKeyConfig {
  using T = T_;
  static constexpr int kHead = kHead_;
  using Mma = typename Arch::template Mma<T, kHead>;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr auto kTile = Arch::grad_kv_tile(static_cast<int>(sizeof(T)), kHead, kGeneral);
  static constexpr int kRows = kTile.rows;        // of keys, Bc of the paper
  static constexpr int kColumns = kTile.columns;  // of queries, Br of the paper
  static constexpr int kStages = kTile.stages;
  static constexpr int kSide = kTile.wave_columns;  // waves side by side
  static constexpr int kThreads = kTile.waves * Mma::kWave;
  static constexpr int kMinBlocks = kTile.blocks;
  static constexpr int kRowBlocks = kRows * kSide / (16 * kTile.waves);  // of a wave
  using KeyTile = SharedTile<T, kRows, kHead>;
  using QueryTile = SharedTile<T, kColumns, kHead>;
  // Waves side by side split S by columns if there are enough; or else each computes all of it.
  static constexpr bool kExchange = kTile.shared_weights || (kSide > 1 && kColumns >= 16 * kSide);
  static constexpr int kWaveColumns = kExchange ? kColumns / kSide : kColumns;
  using WeightTile = SharedTile<T, kRows, kExchange ? kColumns : 64>;
  static constexpr int kTileBytes = 2 * KeyTile::kBytes + 2 * kStages * QueryTile::kBytes +
                                    (kExchange ? 2 * WeightTile::kBytes : 0);
  static constexpr int kStatisticsBytes = 3 * kColumns * static_cast<int>(sizeof(float));
  // Statistics of the queries are kept in shared memory unless the tiles fill it.
  static constexpr bool kShareStatistics =
      kTileBytes + kStages * kStatisticsBytes <= Arch::kSharedBytes;
  static constexpr int kSharedBytes =
      kTileBytes + (kShareStatistics ? kStages * kStatisticsBytes : 0);
  static_assert(kRowBlocks * 16 * kTile.waves == kRows * kSide);
  static_assert(kWaveColumns % 16 == 0 &&
                kHead / kSide % (KeyTile::kPeriod * KeyTile::kChunk) == 0);
  static_assert(kSharedBytes <= Arch::kSharedBytes);
};

// The walk over (query head of the group, tile of queries), and what it copies in at each step.
template <class C>
struct QueryWalk {
  using T = typename C::T;
  const KernelArguments& a;
  KeyItem item;
  int begin, tiles;  // first query, tiles of one head

  CF_DEVICE QueryWalk(const KernelArguments& arguments, const KeyItem& key_item)
      : a(arguments), item(key_item) {
    const auto sequence = this->sequence();
    const shared::cf_visibility& visibility = C::kGeneral ? sequence.visibility() : a.visibility;
    const int j0 = item.first;
    const int end = shared::cf_queries_end(visibility, j0 + C::kRows, sequence.seq_q());
    begin = shared::cf_queries_begin(visibility, j0, sequence.seq_q()) / C::kColumns * C::kColumns;
    tiles = end > begin ? (end - begin + C::kColumns - 1) / C::kColumns : 0;
    if (C::kGeneral && j0 >= sequence.seq_k()) tiles = 0;  // padding
  }
  CF_DEVICE Sequence<C::kGeneral> sequence() const { return sequence_of<C>(a, item.batch); }
  CF_DEVICE int steps() const { return tiles * a.group; }
  CF_DEVICE int head(int step) const { return item.head_kv * a.group + step / tiles; }
  CF_DEVICE int first(int step) const { return begin + step % tiles * C::kColumns; }
  // The first step from this one on that the mask leaves anything of.
  CF_DEVICE int next_from(int step) const {
    if constexpr (C::kGeneral)
      while (step < steps() && !tile_seen<C, C::kColumns, C::kRows>(a, item.batch, head(step),
                                                                    first(step), item.first))
        ++step;
    return step;
  }

  CF_DEVICE Rows<T> queries_of(const KernelTensor& t, int width, int step) const {
    const auto own = sequence();
    return head_rows<T>(t, own.batch_q(item.batch), head(step), width, own.first_q());
  }
  CF_DEVICE Rows<T> keys_of(const KernelTensor& t, int width) const {
    const auto own = sequence();
    return head_rows<T>(t, own.batch_k(item.batch), item.head_kv, width, own.first_k());
  }

  // base: what is subtracted in the exponent. A query past the end has weights of 0.
  struct Statistics {
    float base, D, mend;
  };
  CF_DEVICE Statistics statistics_of(int h, int i) const {
    const auto own = sequence();
    if (i >= own.seq_q()) return {backward_base(shared::cf_neg_inf()), 0.0f, 0.0f};
    const auto value_of = [&](const KernelRows& t) {
      return head_values(t, own.batch_q(item.batch), h, own.first_q())[i * t.seq];
    };
    return {backward_base(value_of(a.lse)), value_of(a.delta), value_of(a.mend)};
  }
  CF_DEVICE Statistics statistics_at(int step, const float* statistics, int column) const {
    if constexpr (C::kShareStatistics)
      return {statistics[column], statistics[C::kColumns + column],
              statistics[2 * C::kColumns + column]};
    return statistics_of(head(step), first(step) + column);
  }

  template <class QueryTile>
  CF_DEVICE void copy(int step, QueryTile q_tile, QueryTile grad_o_tile, float* statistics) const {
    const int i0 = first(step);
    copy_in<C::kThreads>(q_tile, queries_of(a.q, a.d, step), i0, sequence().seq_q());
    copy_in<C::kThreads>(grad_o_tile, queries_of(a.grad_o, a.d_v, step), i0, sequence().seq_q());
    if constexpr (C::kShareStatistics) copy_statistics(step, statistics);
    copy_commit();
  }
  CF_DEVICE void copy_statistics(int step, float* statistics) const {
    for (int n = static_cast<int>(threadIdx.x); n < C::kColumns; n += C::kThreads) {
      const Statistics row = statistics_of(head(step), first(step) + n);
      statistics[n] = row.base;
      statistics[C::kColumns + n] = row.D;
      statistics[2 * C::kColumns + n] = row.mend;
    }
  }
};

// Where a wave stands in the grid: the lane, and the corner of its part of the tile.
template <class C>
struct WavePlace {
  int lane;
  int row;
  int column;  // of S and dP
  int depth;   // of dK and dV

  explicit CF_DEVICE WavePlace(int thread) : lane(thread % C::Mma::kWave) {
    const int wave = thread / C::Mma::kWave;
    row = wave / C::kSide * C::kRowBlocks * 16;
    column = C::kExchange ? wave % C::kSide * C::kWaveColumns : 0;
    depth = wave % C::kSide * (C::kHead / C::kSide);
  }
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    grad_kv_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  const auto k_tile = space.take<typename C::KeyTile>();              // (rows, D), in the end dK
  const auto v_tile = space.take<typename C::KeyTile>();              // (rows, D), in the end dV
  const SharedRing<typename C::QueryTile, C::kStages> q_ring{space};  // (columns, D)
  const SharedRing<typename C::QueryTile, C::kStages> grad_o_ring{space};  // (columns, D)
  typename C::WeightTile p_tile{}, ds_tile{};                              // (rows, columns)
  if constexpr (C::kExchange) {
    p_tile = space.take<typename C::WeightTile>();
    ds_tile = space.take<typename C::WeightTile>();
  }
  float* const statistics = reinterpret_cast<float*>(space.next);

  const KeyItem item(a, C::kRows);
  const Sequence<C::kGeneral> sequence(a, item.batch);
  const int j0 = item.first;
  if (C::kGeneral && j0 >= sequence.written_k()) return;
  const int seq_k = sequence.seq_k();
  const WavePlace<C> own(static_cast<int>(threadIdx.x));
  const float unit = score_unit<C::kGeneral>(a.score);

  const QueryWalk<C> walk(a, item);
  const int steps = walk.steps();
  int next_step = walk.next_from(0);
  if (!C::kGeneral || next_step < steps) {
    copy_in<C::kThreads>(k_tile, walk.keys_of(a.k, a.d), j0, seq_k);
    copy_in<C::kThreads>(v_tile, walk.keys_of(a.v, a.d_v), j0, seq_k);
  }
  copy_commit();  // also where no query sees these keys and nothing else is copied
  if (next_step < steps) walk.copy(next_step, q_ring.at(0), grad_o_ring.at(0), statistics);

  Fragment<Mma, C::kRowBlocks, C::kHead / 16 / C::kSide> dk, dv;
  dk.clear();
  dv.clear();
  int stage = 0;
#pragma unroll 1
  for (int step = next_step; step < steps; step = next_step, stage = (stage + 1) % C::kStages) {
    const WavePlace<C> at(fresh(static_cast<int>(threadIdx.x)));
    const int lane = at.lane;
    copy_wait<0>();
    __syncthreads();  // this step's tiles are there, and those before no longer in use
    const auto q_tile = q_ring.at(stage);
    const auto grad_o_tile = grad_o_ring.at(stage);
    const float* const here = statistics + stage * 3 * C::kColumns;
    next_step = walk.next_from(step + 1);
    const auto copy_next = [&] {
      const int next = (stage + 1) % C::kStages;
      if (next_step < steps)
        walk.copy(next_step, q_ring.at(next), grad_o_ring.at(next),
                  statistics + next * 3 * C::kColumns);
    };
    if constexpr (C::kStages > 1) copy_next();

    Fragment<Mma, C::kRowBlocks, C::kWaveColumns / 16> s, ds;
    s.clear();
    ds.clear();
    add_product<Product::mirrored>(s, k_tile, at.row, q_tile, at.column, lane);  // S^T = K Q^T
    add_product<Product::mirrored>(ds, v_tile, at.row, grad_o_tile, at.column,
                                   lane);  // dP^T = V dO^T

    const int i0 = walk.first(step);
    const int head = walk.head(step);
    const Place<Mma, false> place{i0 + at.column, j0 + at.row, lane};
    const int i1 = i0 + C::kColumns;
    const bool full = C::kGeneral ? tile_full<C>(a, item.batch, i0, i1, j0, j0 + C::kRows)
                                  : shared::cf_tile_full(a.visibility, i0, i1, j0, j0 + C::kRows);
    hide_scores<C>(s, place, full, a, item.batch, head);
    with_terms<C>(a, item.batch, head, [&](auto term) {
      const auto differentiate = [&](int r, int c, int v, float& x, float z) {
        const auto row = walk.statistics_at(step, here, at.column + 16 * c + Mma::column(lane, v));
        float slope;
        float& p = s.x[r][c][v];
        p = probability<C::kGeneral>(a.score, p, term(place, r, c, v), unit, row.base, slope) *
            row.mend;
        x = p * (kept_gradient<C::kGeneral>(x, z) - row.D) * slope;
        p *= z;
      };
      if (C::kGeneral && (a.score.features & shared::CF_DROPOUT) != 0) {
        const auto flat = static_cast<shared::uint>(item.batch * a.heads_q + head);
        for_each_kept(ds, place, a, flat, differentiate);
      } else {
        ds.for_each([&](int r, int c, int v, float& x) { differentiate(r, c, v, x, 1.0f); });
      }
    });
    if constexpr (!C::kExchange) {
      add_weighted(dv, s, grad_o_tile.from_column(at.depth), 0, 0, lane);  // dV += (P z)^T dO
      add_weighted(dk, ds, q_tile.from_column(at.depth), 0, 0, lane);      // dK += dS^T Q
    } else {
      store_fragment(s, p_tile, at.row, at.column, lane);
      store_fragment(ds, ds_tile, at.row, at.column, lane);
      __syncthreads();
      add_product_across(dv, p_tile, at.row, grad_o_tile.from_column(at.depth), 0, lane);
      add_product_across(dk, ds_tile, at.row, q_tile.from_column(at.depth), 0, lane);
    }
    if constexpr (C::kStages == 1) {
      __syncthreads();
      copy_next();
    }
  }
  copy_wait<0>();
  __syncthreads();

  const float last = gradient_unit<C::kGeneral>(a.score);
  dk.for_each([&](int, int, int, float& x) { x *= last; });
  store_sum(dk, k_tile, own.row, own.depth, own.lane);
  store_sum(dv, v_tile, own.row, own.depth, own.lane);
  __syncthreads();
  copy_out<C::kThreads>(k_tile, walk.keys_of(a.grad_k, a.d), j0, walk.sequence().written_k());
  copy_out<C::kThreads>(v_tile, walk.keys_of(a.grad_v, a.d_v), j0, walk.sequence().written_k());
}

struct backward_dkv {
  static constexpr const char* kName = "grad_kv";
  static constexpr KernelPass kPass = KernelPass::grad_kv;
  static constexpr bool kEverySize = false;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = GradKeyConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &grad_kv_kernel<C>;
  }
};

}  // namespace crossflash::hip
