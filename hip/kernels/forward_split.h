// SPDX-License-Identifier: MIT
// forward_split.h: forward for few queries against many keys ("flash decoding"), which is bound by
// reading K and V once. A block owns a stretch of the keys of one key head, and a tile of rows made
// of the queries of all query heads of its group; its waves take turns at 16 keys or more of every
// tile, each with a state (m, l, o) of its own. The states become one by the combine operator, and
// so do, in combine.h, those of all stretches.
#pragma once

#include "hip/kernels/forward.h"
#include "hip/tile/block.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct SplitConfig {
  using T = T_;
  static constexpr int kHead = kHead_;
  using Mma = typename Arch::template Mma<T, kHead>;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr auto kTile = Arch::split_tile(static_cast<int>(sizeof(T)), kHead);
  static constexpr int kRows = kTile.rows;        // Br, of every wave
  static constexpr int kColumns = kTile.columns;  // Bc
  static constexpr int kWaves = kTile.waves;
  static constexpr int kStages = kTile.stages;
  static constexpr int kThreads = kWaves * Mma::kWave;
  static constexpr int kMinBlocks = kTile.blocks;
  static constexpr int kRowBlocks = kRows / 16;
  static constexpr int kWaveColumns = kColumns / kWaves;
  using QueryTile = SharedTile<T, kRows, kHead>;
  using KeyTile = SharedTile<T, kColumns, kHead>;
  using StateTile = SharedTile<float, kWaves * kRows, kHead>;  // o of every wave, in the end
  static constexpr int kWalkBytes = QueryTile::kBytes + 2 * kStages * KeyTile::kBytes;
  static constexpr int kStateBytes =
      StateTile::kBytes + 2 * kWaves * kRows * static_cast<int>(sizeof(float));
  static constexpr int kSharedBytes = kWalkBytes > kStateBytes ? kWalkBytes : kStateBytes;
  static_assert(kRowBlocks * 16 == kRows && kRows <= kThreads);
  static_assert(kWaveColumns % 16 == 0 && kWaveColumns * kWaves == kColumns);
  static_assert(kSharedBytes <= Arch::kSharedBytes);
};

// Rows are packed (see SplitItem), columns are keys; `row` is that of the tile's corner.
template <class Mma>
struct PackedPlace {
  static constexpr bool kRowsAreQueries = true;
  int row, group, key, lane;

  CF_DEVICE int query_of_row(int n) const { return (row + n) / group; }
  CF_DEVICE int query_of(int r, int, int v) const {
    return query_of_row(16 * r + Mma::row(lane, v));
  }
  CF_DEVICE int key_of(int, int c, int v) const { return key + 16 * c + Mma::column(lane, v); }
  CF_DEVICE int head_of(int r, int v) const { return (row + 16 * r + Mma::row(lane, v)) % group; }
};

// The tiles of keys of a block: its share of those that queries [i0, i1) see.
struct KeyStretch {
  int first, tiles;

  CF_DEVICE KeyStretch(const shared::cf_visibility& visibility, int splits, int split, int i0,
                       int i1, int columns) {
    const int begin = shared::cf_keys_begin(visibility, i0) / columns;
    const int end = (shared::cf_keys_end(visibility, i1) + columns - 1) / columns;
    const int all = end > begin ? end - begin : 0;
    const int share = (all + splits - 1) / splits;
    const int left = all - split * share;
    first = (begin + split * share) * columns;
    tiles = left < share ? (left > 0 ? left : 0) : share;
  }
};

// The tile of queries, by rows that have two strides.
template <class C>
CF_DEVICE void copy_queries(typename C::QueryTile tile, const KernelArguments& a,
                            const SplitItem& item, const Sequence<C::kGeneral>& sequence) {
  using T = typename C::T;
  using Tile = typename C::QueryTile;
#pragma unroll 1
  for (int n = static_cast<int>(threadIdx.x); n < C::kRows * Tile::kChunks; n += C::kThreads) {
    const int row = n / Tile::kChunks;
    const int c = n % Tile::kChunks;
    const int left = a.d - c * Tile::kChunk;  // columns from here on
    const int i = item.query(row);
    const auto rows =
        head_rows<T>(a.q, sequence.batch_q(item.batch), item.head(row), a.d, sequence.first_q());
    const T* const from = rows.data + i * rows.stride + c * Tile::kChunk;
    T* const to = tile.chunk(row, c);
    if (rows.aligned && i < sequence.seq_q() && left > 0) {
      move_chunk(to, from);
    } else {
#pragma unroll
      for (int x = 0; x < Tile::kChunk; ++x)
        to[x] = i < sequence.seq_q() && x < left ? from[x] : T{};
    }
  }
}

// The waves' states become one for each row: the result if there is one stretch of keys, or else a
// state for combine.h.
template <class C>
CF_DEVICE void combine_waves(const OnlineSoftmax<C>& state, SharedSpace space,
                             const KernelArguments& a, const SplitItem& item,
                             const Sequence<C::kGeneral>& sequence) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  const auto o_tile = space.take<typename C::StateTile>();
  float* const m_of = reinterpret_cast<float*>(space.next);  // (waves, Br), then the waves' factors
  float* const l_of = m_of + C::kWaves * C::kRows;           // (waves, Br)
  const float state_unit = C::kGeneral ? 1.0f : a.score.scale;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % Mma::kWave;
  const int wave_row = thread / Mma::kWave * C::kRows;
  store_sum(state.o, o_tile, wave_row, 0, lane);
#pragma unroll
  for (int r = 0; r < C::kRowBlocks; ++r)
#pragma unroll
    for (int slot = 0; slot < Mma::kSlots; ++slot)
      if (Mma::column(lane, 0) == 0) {
        m_of[wave_row + slot_row<Mma>(r, slot, lane)] = state.m.x[r][slot];
        l_of[wave_row + slot_row<Mma>(r, slot, lane)] = state.l.x[r][slot];
      }
  __syncthreads();

  const bool whole = a.splits == 1;
  const int batch = sequence.batch_q(item.batch);
  const int written = whole ? sequence.written_q() : sequence.seq_q();
  if (thread < C::kRows) {
    float m = shared::cf_neg_inf();
    float l = 0.0f;
    for (int n = thread; n < C::kWaves * C::kRows; n += C::kRows)
      m = shared::cf_combine_max(m, m_of[n]);
    for (int n = thread; n < C::kWaves * C::kRows; n += C::kRows) {
      m_of[n] = rescale(m_of[n], m, state_unit);
      l += l_of[n] * m_of[n];
    }
    l_of[thread] = whole ? shared::cf_inverse_sum(l) : 1.0f;
    const int i = item.query(thread);
    if (i < written) {
      const int head = item.head(thread);
      if (whole) {
        float* const lse = head_values(a.lse, batch, head, sequence.first_q());
        const bool there = !C::kGeneral || i < sequence.seq_q();
        lse[i * a.lse.seq] = there ? shared::cf_lse(m * state_unit, l) : shared::cf_neg_inf();
      } else {
        float* const to = split_state(a, item.split, item.batch, head, i);
        to[0] = m;
        to[1] = l;
      }
    }
  }
  __syncthreads();

#pragma unroll 1
  for (int n = thread; n < C::kRows * C::kHead; n += C::kThreads) {
    const int row = n / C::kHead;
    const int column = n % C::kHead;
    const int i = item.query(row);
    if (i >= written || column >= a.d_v) continue;
    float o = 0.0f;
#pragma unroll
    for (int wave = 0; wave < C::kWaves; ++wave)
      o += *o_tile.at(wave * C::kRows + row, column) * m_of[wave * C::kRows + row];
    o *= l_of[row];
    if (C::kGeneral && i >= sequence.seq_q()) o = 0.0f;
    const int head = item.head(row);
    if (whole)
      store_run<1>(
          head_rows<T>(a.o, batch, head, a.d_v, sequence.first_q()).data + i * a.o.seq + column,
          &o);
    else
      split_state(a, item.split, item.batch, head, i)[2 + column] = o;
  }
}

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    forward_split_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  const auto q_tile = space.take<typename C::QueryTile>();          // (Br, D)
  const SharedRing<typename C::KeyTile, C::kStages> k_ring{space};  // (Bc, D)
  const SharedRing<typename C::KeyTile, C::kStages> v_ring{space};  // (Bc, D)

  const SplitItem item(a, C::kRows);
  const int i0 = item.query(0);
  const int i1 = item.query(C::kRows - 1) + 1;
  const Sequence<C::kGeneral> sequence(a, item.batch);
  const ScoreOptions<T> options(a, item.batch, item.head_kv * item.group, sequence);
  const shared::cf_visibility& visibility = C::kGeneral ? sequence.visibility() : a.visibility;
  if (C::kGeneral && i0 >= (a.splits == 1 ? sequence.written_q() : sequence.seq_q())) return;
  const int seq_k = sequence.seq_k();
  const int batch_k = sequence.batch_k(item.batch);
  const auto k = head_rows<T>(a.k, batch_k, item.head_kv, a.d, sequence.first_k());
  const auto v = head_rows<T>(a.v, batch_k, item.head_kv, a.d_v, sequence.first_k());
  const float unit = score_unit<C::kGeneral>(a.score);

  KeyStretch keys(visibility, a.splits, item.split, i0, i1, C::kColumns);
  if (C::kGeneral && i0 >= sequence.seq_q()) keys.tiles = 0;  // padding
  shared::uint unmasked = 0;  // stages whose tile a mask leaves anything of, as bits
  const auto copy_tile = [&](int tile) {
    if (tile < keys.tiles) {
      const int stage = tile % C::kStages;
      const int j0 = keys.first + tile * C::kColumns;
      bool sees = true;
      if constexpr (C::kGeneral) {
        sees = options.template sees<Mma::kWave, C::kRows, C::kColumns>(
            j0, [&](int row) { return item.query(row); }, [&](int row) { return item.head(row); });
        unmasked = (unmasked & ~(1u << stage)) | (sees ? 1u << stage : 0u);
      }
      if (sees) {
        copy_keys<C::kThreads>(k_ring.at(stage), k, KeyPages<C::kGeneral>(a, a.k, item.batch), j0,
                               seq_k);
        copy_keys<C::kThreads>(v_ring.at(stage), v, KeyPages<C::kGeneral>(a, a.v, item.batch), j0,
                               seq_k);
      }
    }
    copy_commit();
  };
#pragma unroll
  for (int tile = 0; tile < C::kStages - 1; ++tile) copy_tile(tile);
  copy_queries<C>(q_tile, a, item, sequence);

  OnlineSoftmax<C> state;
  if (C::kGeneral && options.has(shared::CF_SINK) && a.splits == 1 &&
      static_cast<int>(threadIdx.x) < Mma::kWave)  // once for each row; or else in combine.h
    state.start(static_cast<int>(threadIdx.x),
                [&](int row) { return a.options.sink[item.head(row)]; });
#pragma unroll 1
  for (int tile = 0; tile < keys.tiles; ++tile) {
    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_column = thread / Mma::kWave * C::kWaveColumns;
    if constexpr (C::kStages == 1) {
      __syncthreads();  // the tile before is no longer in use
      copy_tile(tile);
    }
    copy_wait<C::kStages == 1 ? 0 : C::kStages - 2>();
    __syncthreads();  // this tile is there, and the one before no longer in use
    if constexpr (C::kStages > 1) copy_tile(tile + C::kStages - 1);

    if (C::kGeneral && (unmasked >> tile % C::kStages & 1u) == 0) continue;
    const int j0 = keys.first + tile * C::kColumns + wave_column;
    // The wave's keys as tiles of their own, so that their rows are constants (chunk_of_block).
    const auto k_tile = k_ring.at(tile % C::kStages).from_row(wave_column);
    const auto v_tile = v_ring.at(tile % C::kStages).from_row(wave_column);
    Fragment<Mma, C::kRowBlocks, C::kWaveColumns / 16> s;
    s.clear();
    add_product(s, q_tile, 0, k_tile, 0, lane);  // S = Q K^T
    const PackedPlace<Mma> place{item.first, a.group, j0, lane};
    if constexpr (C::kGeneral) options.apply(s, place);
    if (!shared::cf_tile_full(visibility, i0, i1, j0, j0 + C::kWaveColumns))
      mask_scores(s, place, visibility, sequence.seq_q());
    if constexpr (C::kGeneral) options.mask(s, place);
    state.add_scores(s, unit);
    if (C::kGeneral && (a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(s, place, a, item.flat(a), [](int, int, int, float& p, float z) { p *= z; });
    add_weighted(state.o, s, v_tile, 0, 0, lane);  // O += P V
  }
  copy_wait<0>();
  __syncthreads();
  state.l.for_each([](int, int, float& l) { l = Mma::row_sum(l); });
  combine_waves(state, SharedSpace{shared_memory}, a, item, sequence);
}

struct forward_split {
  static constexpr const char* kName = "forward_split";
  static constexpr KernelPass kPass = KernelPass::forward_split;
  static constexpr bool kEverySize = false;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = SplitConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &forward_split_kernel<C>;
  }
};

}  // namespace crossflash::hip
