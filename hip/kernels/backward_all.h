// SPDX-License-Identifier: MIT
// backward_all.h: dK, dV and the sums of dQ in one walk (FlashAttention, Algorithm 4): five
// products where grad_q and grad_kv do seven. A block owns a tile of keys, which are the rows here,
// and walks over the query heads of the group and the queries that see it. dK and dV have one
// owner; dQ is added up in device memory by all blocks of the head, in whatever order they come.
//
//   waves   key rows of the tile x sides. Sides share P and dS through shared memory, and each sums
//           its part of the head size of dK and dV; with one side P stays in registers.
//   dQ      (queries of the step, D) is cut up anew: dS of all keys is in shared memory
//
// Rows of P are not mended (softmax.h): in 16 bits the rounding of an f32 lse is far below that of
// the tensors themselves. So this pass is for 16-bit types.
#pragma once

#include "hip/kernels/backward_score.h"
#include "hip/kernels/query_sums.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct GradAllConfig {
  using T = T_;
  using Mma = typename Arch::template Mma<T>;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr auto kTile = Arch::grad_all_tile(kHead, kGeneral);
  static constexpr int kRows = kTile.rows;        // of keys, Bc of the paper
  static constexpr int kColumns = kTile.columns;  // of queries, Br of the paper
  static constexpr int kStages = kTile.stages;
  static constexpr int kSides = kTile.wave_columns;
  static constexpr int kThreads = kTile.waves * Mma::kWave;
  static constexpr int kMinBlocks = kTile.blocks;
  static constexpr int kRowBlocks = kRows * kSides / (16 * kTile.waves);  // of a wave
  static constexpr bool kExchange = kSides > 1;
  static constexpr int kOwnColumns = kColumns / kSides;  // a wave scores them kPart at a time
  static constexpr int kPart = kTile.part == 0 ? kOwnColumns : kTile.part;
  static constexpr int kDepth = kHead / kSides;  // of a wave's dK and dV
  // dQ of a step: the piece a wave sums at a time, in blocks, and how many there are.
  static constexpr int kSumRows = kTile.sum_rows;
  static constexpr int kSumColumns = kTile.sum_columns;
  static constexpr int kSumsAcross = kHead / (16 * kSumColumns);
  static constexpr int kSums = kColumns / (16 * kSumRows) * kSumsAcross;
  using KeyTile = SharedTile<T, kRows, kHead>;
  using QueryTile = SharedTile<T, kColumns, kHead>;
  using WeightTile = SharedTile<T, kRows, kColumns>;
  static constexpr int kStatisticsBytes = 2 * kColumns * static_cast<int>(sizeof(float));
  static constexpr int kSharedBytes = 2 * KeyTile::kBytes + 2 * kStages * QueryTile::kBytes +
                                      (kExchange ? 2 : 1) * WeightTile::kBytes +
                                      kStages * kStatisticsBytes;
  static_assert(kRowBlocks * 16 * kTile.waves == kRows * kSides);
  static_assert(kPart % 16 == 0 && kOwnColumns % kPart == 0);
  static_assert(kDepth % (KeyTile::kPeriod * KeyTile::kChunk) == 0);
  static_assert(kSums * kSumRows * kSumColumns * 256 == kColumns * kHead);
  static_assert(kSumColumns % Mma::kGroup == 0);
  static_assert(kSharedBytes <= Arch::kSharedBytes);
};

// The walk over (query head of the group, tile of queries). Blocks of one head start at different
// tiles, so that they do not all add to the same dQ.
template <class C>
struct QuerySteps {
  int begin, end, start;  // of the queries; where a round begins
  int head, query;        // of this step; its first query

  CF_DEVICE QuerySteps(const KernelArguments& a, const Sequence<C::kGeneral>& sequence,
                       const KeyItem& item) {
    const shared::cf_visibility& visibility = C::kGeneral ? sequence.visibility() : a.visibility;
    begin = shared::cf_queries_begin(visibility, item.first, sequence.seq_q()) / C::kColumns *
            C::kColumns;
    end = shared::cf_queries_end(visibility, item.first + C::kRows, sequence.seq_q());
    if (C::kGeneral && item.first >= sequence.seq_k()) end = begin;  // padding
    const int tiles = in_round();
    start = begin + (tiles > 0 ? item.first / C::kRows % tiles * C::kColumns : 0);
    head = item.head_kv * a.group;
    query = start;
  }
  CF_DEVICE int in_round() const {
    return end > begin ? (end - begin + C::kColumns - 1) / C::kColumns : 0;
  }
  CF_DEVICE void advance() {
    query += C::kColumns;
    if (query >= end) query = begin;
    if (query == start) ++head;
  }

  // Goes on to the first step from this one on that the mask leaves anything of; returns its
  // number.
  CF_DEVICE int skip_hidden(const KernelArguments& a, const KeyItem& item, int step, int steps) {
    if constexpr (C::kGeneral)
      for (; step < steps &&
             !tile_seen<C, C::kColumns, C::kRows>(a, item.batch, head, query, item.first);
           ++step)
        advance();
    return step;
  }

  CF_DEVICE void copy(const KernelArguments& a, int batch, typename C::QueryTile q_tile,
                      typename C::QueryTile grad_o_tile, float* statistics) const {
    using T = typename C::T;
    const auto sequence = sequence_of<C>(a, batch);
    const auto rows_of = [&](const KernelTensor& t, int width) {
      return head_rows<T>(t, sequence.batch_q(batch), head, width, sequence.first_q());
    };
    copy_in<C::kThreads>(q_tile, rows_of(a.q, a.d), query, sequence.seq_q());
    copy_in<C::kThreads>(grad_o_tile, rows_of(a.grad_o, a.d_v), query, sequence.seq_q());
    // A query past the end has zeros for Q, dO, base and D, and so adds nothing to anything; with
    // what options add to its score its weight might be infinite, so there its base is.
    for (int n = static_cast<int>(threadIdx.x); n < 2 * C::kColumns; n += C::kThreads) {
      const KernelRows& rows = n < C::kColumns ? a.base : a.delta;
      const int i = query + n % C::kColumns;
      if (C::kGeneral && n < C::kColumns && i >= sequence.seq_q())
        statistics[n] = backward_base(shared::cf_neg_inf());
      else
        copy_value(
            statistics + n,
            head_values(rows, sequence.batch_q(batch), head, sequence.first_q()) + i * rows.seq,
            i < sequence.seq_q());
    }
    copy_commit();
  }
};

// dQ of one step, (queries, D) = dS K, added to the sums: the pieces of this wave.
template <class C>
CF_DEVICE void add_grad_q(const QuerySums& sums, typename C::WeightTile ds_tile,
                          typename C::KeyTile k_tile, int i0, int seq_q, float factor) {
  using Mma = typename C::Mma;
  const int thread = fresh(static_cast<int>(threadIdx.x));
  const int lane = thread % Mma::kWave;
#pragma unroll 1
  for (int n = thread / Mma::kWave; n < C::kSums; n += C::kThreads / Mma::kWave) {
    const int query = n / C::kSumsAcross * C::kSumRows * 16;
    const int column = n % C::kSumsAcross * C::kSumColumns * 16;
    Fragment<Mma, C::kSumRows, C::kSumColumns> dq;
    dq.clear();
    add_transposed_product(dq, ds_tile, query, k_tile, column, lane);
    sums.add(dq, i0 + query, column, factor, seq_q, lane);
  }
}

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    grad_all_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  const auto k_tile = space.take<typename C::KeyTile>();              // (rows, D), in the end dK
  const auto v_tile = space.take<typename C::KeyTile>();              // (rows, D), in the end dV
  const SharedRing<typename C::QueryTile, C::kStages> q_ring{space};  // (columns, D)
  const SharedRing<typename C::QueryTile, C::kStages> grad_o_ring{space};  // (columns, D)
  const auto ds_tile = space.take<typename C::WeightTile>();               // (rows, columns)
  typename C::WeightTile p_tile{};                                         // (rows, columns)
  if constexpr (C::kExchange) p_tile = space.take<typename C::WeightTile>();
  float* const statistics = reinterpret_cast<float*>(space.next);  // base and D of the columns

  const KeyItem item(a, C::kRows);
  const Sequence<C::kGeneral> sequence(a, item.batch);
  const int j0 = item.first;
  if (C::kGeneral && j0 >= sequence.written_k()) return;
  const int seq_k = sequence.seq_k();
  const auto keys_of = [&](const KernelTensor& t, int width) {
    const auto own = sequence_of<C>(a, item.batch);
    return head_rows<T>(t, own.batch_k(item.batch), item.head_kv, width, own.first_k());
  };
  const float unit = score_unit<C::kGeneral>(a.score);
  const float last = gradient_unit<C::kGeneral>(a.score);

  QuerySteps<C> at(a, sequence, item);
  const int steps = at.in_round() * a.group;
  int next_step = at.skip_hidden(a, item, 0, steps);
  if (!C::kGeneral || next_step < steps) {
    copy_in<C::kThreads>(k_tile, keys_of(a.k, a.d), j0, seq_k);
    copy_in<C::kThreads>(v_tile, keys_of(a.v, a.d_v), j0, seq_k);
  }
  copy_commit();  // also where no query sees these keys and nothing else is copied
  if (next_step < steps) at.copy(a, item.batch, q_ring.at(0), grad_o_ring.at(0), statistics);

  Fragment<Mma, C::kRowBlocks, C::kDepth / 16> dk, dv;
  dk.clear();
  dv.clear();
  int stage = 0;
#pragma unroll 1
  for (int step = next_step; step < steps; step = next_step) {
    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave = thread / Mma::kWave;
    const int row = wave / C::kSides * C::kRowBlocks * 16;
    const int side = wave % C::kSides;
    copy_wait<0>();
    __syncthreads();  // this step's tiles are there, and those before no longer in use
    const auto q_tile = q_ring.at(stage);
    const auto grad_o_tile = grad_o_ring.at(stage);
    const float* const here = statistics + stage * 2 * C::kColumns;
    const int i0 = at.query;
    const int head = at.head;
    const QuerySums sums(a, sequence_of<C>(a, item.batch), item.batch, head);
    at.advance();
    next_step = at.skip_hidden(a, item, step + 1, steps);
    stage = (stage + 1) % C::kStages;
    const auto copy_next = [&] {
      if (next_step < steps)
        at.copy(a, item.batch, q_ring.at(stage), grad_o_ring.at(stage),
                statistics + stage * 2 * C::kColumns);
    };
    if constexpr (C::kStages > 1) copy_next();

    const int i1 = i0 + C::kColumns;
    const bool full = C::kGeneral ? tile_full<C>(a, item.batch, i0, i1, j0, j0 + C::kRows)
                                  : shared::cf_tile_full(a.visibility, i0, i1, j0, j0 + C::kRows);
#pragma unroll 1
    for (int part = 0; part < C::kOwnColumns; part += C::kPart) {
      const int column = side * C::kOwnColumns + part;
      Fragment<Mma, C::kRowBlocks, C::kPart / 16> s, ds;
      s.clear();
      ds.clear();
      add_product(s, k_tile, row, q_tile, column, lane);        // S^T = K Q^T
      add_product(ds, v_tile, row, grad_o_tile, column, lane);  // dP^T = V dO^T

      const Place<Mma, false> place{i0 + column, j0 + row, lane};
      hide_scores<C>(s, place, full, a, item.batch, head);
      with_terms<C>(a, item.batch, head, [&](auto term) {
        const auto differentiate = [&](int r, int c, int v, float& x, float z) {
          const int n = column + 16 * c + Mma::column(lane, v);
          float slope;
          float& p = s.x[r][c][v];
          p = probability<C::kGeneral>(a.score, p, term(place, r, c, v), unit, here[n], slope);
          x = p * (kept_gradient<C::kGeneral>(x, z) - here[C::kColumns + n]) * slope;
          p *= z;
        };
        if (C::kGeneral && (a.score.features & shared::CF_DROPOUT) != 0) {
          const auto flat = static_cast<shared::uint>(item.batch * a.heads_q + head);
          for_each_kept_down(ds, place, a, flat, differentiate);
        } else {
          ds.for_each([&](int r, int c, int v, float& x) { differentiate(r, c, v, x, 1.0f); });
        }
      });
      store_fragment(ds, ds_tile, row, column, lane);
      if constexpr (C::kExchange) {
        store_fragment(s, p_tile, row, column, lane);
      } else {
        add_weighted(dv, s, grad_o_tile, part, 0, lane);  // dV += (P z)^T dO
        add_weighted(dk, ds, q_tile, part, 0, lane);      // dK += dS^T Q
      }
    }
    if constexpr (C::kExchange) {
      sync_waves(wave / C::kSides, C::kSides * Mma::kWave);  // P and dS of these rows are there
      const int depth = side * C::kDepth;
      add_product_across(dv, p_tile, row, grad_o_tile.from_column(depth), 0, lane);
      add_product_across(dk, ds_tile, row, q_tile.from_column(depth), 0, lane);
    }
    __syncthreads();  // dS is there, and Q and dO are no longer in use
    if constexpr (C::kStages == 1) copy_next();
    add_grad_q<C>(sums, ds_tile, k_tile, i0, sequence_of<C>(a, item.batch).seq_q(), last);
  }
  copy_wait<0>();
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int wave = static_cast<int>(threadIdx.x) / Mma::kWave;
  const int row = wave / C::kSides * C::kRowBlocks * 16;
  const int depth = wave % C::kSides * C::kDepth;
  dk.for_each([&](int, int, int, float& x) { x *= last; });
  store_sum(dk, k_tile, row, depth, lane);
  store_sum(dv, v_tile, row, depth, lane);
  __syncthreads();
  copy_out<C::kThreads>(k_tile, keys_of(a.grad_k, a.d), j0,
                        sequence_of<C>(a, item.batch).written_k());
  copy_out<C::kThreads>(v_tile, keys_of(a.grad_v, a.d_v), j0,
                        sequence_of<C>(a, item.batch).written_k());
}

struct backward_all {
  static constexpr const char* kName = "grad_all";
  static constexpr KernelPass kPass = KernelPass::grad_all;
  static constexpr bool kEverySize = false;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = GradAllConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &grad_all_kernel<C>;
  }
};

}  // namespace crossflash::hip
