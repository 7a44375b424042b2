// SPDX-License-Identifier: MIT
// forward.h: FlashAttention-2's forward. A block owns a tile of queries and walks over the keys
// they see with the online softmax (FlashAttention, Algorithm 2); a wave owns rows of the tile, so
// that nothing but K and V is shared. O, m and l stay in registers. While S = Q K^T of a tile is
// computed its V is on the way, and while O += P V is, the next K.
#pragma once

#include "hip/kernels/item.h"
#include "hip/kernels/score.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct ForwardConfig {
  using T = T_;
  using Mma = typename Arch::template Mma<T>;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr auto kTile = Arch::forward_tile(static_cast<int>(sizeof(T)), kHead, kGeneral);
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
  static constexpr int kSharedBytes =
      QueryTile::kBytes + 2 * kStages * KeyTile::kBytes + (kSharedWeights ? WeightTile::kBytes : 0);
  static_assert(kRowBlocks * 16 * kTile.waves == kRows && kColumns % 16 == 0);
  static_assert(kSharedBytes <= Arch::kSharedBytes);
};

// The state (m, l, o) of a wave's rows. m is in the unit of the scores, l this lane's share.
template <class C, int kWidth = C::kHead>
struct OnlineSoftmax {
  using Mma = typename C::Mma;
  RowValues<Mma, C::kRowBlocks> m, l;
  Fragment<Mma, C::kRowBlocks, kWidth / 16> o;

  CF_DEVICE OnlineSoftmax() {
    m.fill(shared::cf_neg_inf());
    l.fill(0.0f);
    o.clear();
  }

  // The state of the rows' sinks, (sink, 1, 0), instead of the empty one: sink_of(row).
  template <class SinkOf>
  CF_DEVICE void start(int lane, SinkOf sink_of) {
    m.for_each([&](int r, int slot, float& at) {
      at = sink_of(slot_row<Mma>(r, slot, lane));
      const bool mine = Mma::column(lane, 0) == 0 && !shared::cf_is_neg_inf(at);
      l.x[r][slot] = mine ? 1.0f : 0.0f;
    });
  }

  // exp(x - m) for a score x. f32 takes the difference first, so that the weight of a row's largest
  // score is exactly 1; else one fused operation does, the rounding of the product m * unit apart,
  // which is one factor for the whole row. `base` is what base_of makes of m.
  static constexpr bool kDifferenceFirst = sizeof(typename C::T) == sizeof(float);
  static CF_DEVICE float base_of(float m, float unit) {
    // A row that has seen no key yet: any finite base keeps its weights exp2(-inf) = 0.
    if (shared::cf_is_neg_inf(m)) return 0.0f;
    return scaled(m, unit);
  }
  // The product is rounded by itself wherever it is made: fused with a difference it would not be 0
  // where m stays, and o and l would drift from tile to tile.
  static CF_DEVICE float scaled(float m, float unit) {
    return kDifferenceFirst ? m : rounded_product(m, unit);
  }
  static CF_DEVICE float weight(float x, float base, float unit) {
    return exp2_fast(kDifferenceFirst ? (x - base) * unit : x * unit - base);
  }

  // How far a score may lie above m, in the exponent of 2, before m follows: weights of up to 2^8
  // are as exact as those below 1, and with it m and o seldom change after the first tiles. In f32
  // not at all, for the same reason as above.
  static constexpr float kSlack = kDifferenceFirst ? 0.0f : 8.0f;

  // Takes a tile's scores into m and l and brings o to the new m; leaves P in their place.
  template <class F>
  CF_DEVICE void add_scores(F& s, float unit) {
    meet(s, unit);
    weigh(s, unit);
  }

  // Brings m, l and o to a maximum that a tile's scores do not exceed (by more than kSlack). Each
  // lane looks at its own scores; the rows' maxima are only needed where one does.
  template <class F>
  CF_DEVICE void meet(F& s, float unit) {
    RowValues<Mma, C::kRowBlocks> top;
    bool rises = false;
#pragma unroll
    for (int r = 0; r < C::kRowBlocks; ++r) {
#pragma unroll
      for (int n = 0; n < Mma::kSlots; ++n) top.x[r][n] = shared::cf_neg_inf();
      s.for_each_in(r, [&](int, int v, float& x) {
        top.x[r][Mma::slot(v)] = max_of(top.x[r][Mma::slot(v)], x);
      });
#pragma unroll
      for (int n = 0; n < Mma::kSlots; ++n)
        rises = rises || (kDifferenceFirst ? top.x[r][n] > m.x[r][n]
                                           : fmaf(top.x[r][n], unit, -m.x[r][n] * unit) > kSlack);
    }
    rises = any_lane(rises);
    if (kLongBranches && !rises) return;
    m.for_each([&](int r, int slot, float& at) {
      const float before = scaled(at, unit);
      const float peak = max_of(at, Mma::row_max(top.x[r][slot]));
      at = rises ? peak : at;
      const float base = base_of(at, unit);
      top.x[r][slot] = kDifferenceFirst ? weight(before, base, unit) : exp2_fast(before - base);
      l.x[r][slot] *= top.x[r][slot];
    });
    if (rises) o.for_each([&](int r, int, int v, float& x) { x *= top.x[r][Mma::slot(v)]; });
  }

  // P in the place of a tile's scores, and into l.
  template <class F>
  CF_DEVICE void weigh(F& s, float unit) {
    RowValues<Mma, C::kRowBlocks> base;
    base.for_each([&](int r, int slot, float& x) { x = base_of(m.x[r][slot], unit); });
    s.for_each([&](int r, int, int v, float& x) {
      const int slot = Mma::slot(v);
      x = weight(x, base.x[r][slot], unit);
      l.x[r][slot] += x;
    });
  }

  // o is normalised, m becomes the rows' LSE.
  CF_DEVICE void finish(float unit) {
    l.for_each([&](int r, int slot, float& sum) {
      sum = Mma::row_sum(sum);
      float& at = m.x[r][slot];
      at = shared::cf_lse(at * unit * shared::CF_LN2, sum);
      sum = shared::cf_inverse_sum(sum);
    });
    o.for_each([&](int r, int, int v, float& x) { x *= l.x[r][Mma::slot(v)]; });
  }

  // After finish: rows from `count` on, which are no queries, become those of no key.
  CF_DEVICE void clear_from(int count, int lane) {
    m.for_each([&](int r, int slot, float& at) {
      const bool there = slot_row<Mma>(r, slot, lane) < count;
      l.x[r][slot] = there ? 1.0f : 0.0f;
      at = there ? at : shared::cf_neg_inf();
    });
    o.for_each([&](int r, int, int v, float& x) { x = l.x[r][Mma::slot(v)] > 0.0f ? x : 0.0f; });
  }
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    forward_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  const auto q_tile = space.take<typename C::QueryTile>();          // (Br, D), in the end O
  const SharedRing<typename C::KeyTile, C::kStages> k_ring{space};  // (Bc, D)
  const SharedRing<typename C::KeyTile, C::kStages> v_ring{space};  // (Bc, D)
  typename C::WeightTile p_tile{};                                  // (Br, Bc)
  if constexpr (C::kSharedWeights) p_tile = space.take<typename C::WeightTile>();

  const QueryItem item(a, C::kRows);
  const Sequence<C::kGeneral> sequence(a, item.batch);
  const int i0 = item.first;
  if (C::kGeneral && i0 >= sequence.written_q()) return;
  const int seq_k = sequence.seq_k();
  // Made where they are used: held over the loop they cost more registers than there are.
  const auto copy_rows = [&](const QueryItem& at, const Sequence<C::kGeneral>& here,
                             typename C::KeyTile tile, const KernelTensor& t, int width, int j0) {
    const auto rows = head_rows<T>(t, here.batch_k(fresh_unless_scalar(at.batch)),
                                   fresh_unless_scalar(at.head_kv), width, here.first_k());
    copy_keys<C::kThreads>(tile, rows, KeyPages<C::kGeneral>(a, t, at.batch), j0,
                           C::kGeneral ? here.seq_k() : seq_k);
  };
  const auto item_again = [&] {
    if constexpr (!C::kGeneral) return item;
    return QueryItem(a, C::kRows, static_cast<unsigned>(fresh_unless_scalar(blockIdx.x)));
  };
  const float unit = score_unit<C::kGeneral>(a.score);

  const shared::cf_visibility& seen = C::kGeneral ? sequence.visibility() : a.visibility;
  const int key_begin = shared::cf_keys_begin(seen, i0) / C::kColumns * C::kColumns;
  int general_end = 0;
  if constexpr (C::kGeneral) {
    const int i1 = i0 + C::kRows < sequence.seq_q() ? i0 + C::kRows : sequence.seq_q();
    if (i0 < i1) general_end = shared::cf_keys_end(seen, i1);  // or else padding
  }
  const auto key_end = [&] {
    if constexpr (C::kGeneral) return general_end;
    const int end = fresh_unless_scalar(i0) + C::kRows;
    return shared::cf_keys_end(a.visibility, end < a.seq_q ? end : a.seq_q);
  };
  // The first tile from j0 on of which a mask leaves anything.
  const auto unmasked = [&](const QueryItem& at, const ScoreOptions<T>& options, int j0) {
    if constexpr (C::kGeneral)
      while (options.has(shared::CF_MASK) && j0 < key_end() &&
             !options.template sees<Mma::kWave, C::kRows, C::kColumns>(
                 j0, [&](int row) { return at.first + row; }, [&](int) { return at.head; }))
        j0 += C::kColumns;
    return j0;
  };
  const int start = unmasked(item, ScoreOptions<T>(a, item.batch, item.head, sequence), key_begin);
  if (!C::kGeneral || start < key_end()) {
    copy_in<C::kThreads>(
        q_tile, head_rows<T>(a.q, sequence.batch_q(item.batch), item.head, a.d, sequence.first_q()),
        i0, sequence.seq_q());
    copy_rows(item, sequence, k_ring.at(0), a.k, a.d, start);
    if constexpr (C::kStages > 1) copy_rows(item, sequence, v_ring.at(0), a.v, a.d_v, start);
  }
  copy_commit();

  OnlineSoftmax<C> state;
  if (C::kGeneral && (a.score.features & shared::CF_SINK) != 0)
    state.start(static_cast<int>(threadIdx.x) % Mma::kWave,
                [&](int) { return a.options.sink[item.head]; });
  int stage = 0;
#pragma unroll 1
  for (int j0 = start, j1; j0 < key_end(); j0 = j1, stage = (stage + 1) % C::kStages) {
    const QueryItem at = item_again();
    const Sequence<C::kGeneral> here(a, at.batch);
    const ScoreOptions<T> options(a, at.batch, at.head, here);
    const shared::cf_visibility& visibility = C::kGeneral ? here.visibility() : a.visibility;
    j1 = unmasked(at, options, j0 + C::kColumns);
    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = same_in_wave(thread / Mma::kWave) * C::kRowBlocks * 16;
    const int first = at.first + wave_row;
    const int last = first + C::kRowBlocks * 16;
    const bool more = j1 < key_end();
    const int next = (stage + 1) % C::kStages;
    copy_wait<0>();
    __syncthreads();  // K is there, and tiles of the step before no longer in use
    if constexpr (C::kStages == 1) {
      copy_rows(at, here, v_ring.at(0), a.v, a.d_v, j0);
    } else if (more) {
      copy_rows(at, here, k_ring.at(next), a.k, a.d, j1);
      copy_rows(at, here, v_ring.at(next), a.v, a.d_v, j1);
    }
    copy_commit();
    // No more to do for a wave of which no query sees one of these keys.
    if (C::kStages > 1 && (j0 >= shared::cf_keys_end(visibility, last) ||
                           j0 + C::kColumns <= shared::cf_keys_begin(visibility, first)))
      continue;
    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s;
    s.clear();
    add_product<!C::kGeneral>(s, q_tile, wave_row, k_ring.at(stage), 0, lane);  // S = Q K^T
    if constexpr (C::kStages == 1) {
      copy_wait<0>();
      __syncthreads();  // V is there, and K's tile no longer in use
      if (more) copy_rows(at, here, k_ring.at(0), a.k, a.d, j1);
      copy_commit();
    }

    const Place<Mma, true> place{first, j0, lane};
    if constexpr (C::kGeneral) options.apply(s, place);
    if (!shared::cf_tile_full(visibility, first, last, j0, j0 + C::kColumns))
      mask_scores(s, place, visibility, here.seq_q());
    if (C::kGeneral && options.has(shared::CF_MASK)) {
      const QueryItem same = item_again();
      const Sequence<C::kGeneral> there(a, same.batch);
      ScoreOptions<T>(a, same.batch, same.head, there).mask(s, place);
    }
    state.add_scores(s, unit);
    if (C::kGeneral && (a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(s, place, a, at.flat(a), [](int, int, int, float& p, float z) { p *= z; });
    if constexpr (C::kSharedWeights) {
      store_fragment(s, p_tile, wave_row, 0, lane);
      wave_fence();
      add_product_across(state.o, p_tile, wave_row, v_ring.at(stage), 0, lane);  // O += P V
      wave_fence();
    } else {
      add_weighted(state.o, s, v_ring.at(stage), 0, 0, lane);  // O += P V
    }
  }
  copy_wait<0>();
  __syncthreads();

  state.finish(unit);
  // Made again, like rows_of.
  const auto block = static_cast<unsigned>(fresh_unless_scalar(static_cast<int>(blockIdx.x)));
  const QueryItem own(a, C::kRows, block);
  const Sequence<C::kGeneral> own_sequence(a, own.batch);
  const int written = own_sequence.written_q();
  const int thread = fresh(static_cast<int>(threadIdx.x));
  const int lane = thread % Mma::kWave;
  const int wave_row = thread / Mma::kWave * C::kRowBlocks * 16;
  if constexpr (C::kGeneral) state.clear_from(own_sequence.seq_q() - own.first - wave_row, lane);
  const int own_batch = own_sequence.batch_q(own.batch);
  float* lse = head_values(a.lse, own_batch, own.head, own_sequence.first_q());
  state.m.for_each([&](int r, int slot, float& x) {
    const int i = own.first + wave_row + slot_row<Mma>(r, slot, lane);
    if (i < written && Mma::column(lane, 0) == 0) lse[i * a.lse.seq] = x;
  });
  store_sum(state.o, q_tile, wave_row, 0, lane);
  __syncthreads();
  copy_out<C::kThreads>(q_tile,
                        head_rows<T>(a.o, own_batch, own.head, a.d_v, own_sequence.first_q()),
                        own.first, written);
}

struct forward {
  static constexpr const char* kName = "forward";
  static constexpr KernelPass kPass = KernelPass::forward;
  static constexpr bool kEverySize = false;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = ForwardConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &forward_kernel<C>;
  }
};

}  // namespace crossflash::hip
