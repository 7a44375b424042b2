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
  static constexpr int kHead = kHead_;
  using Mma = typename Arch::template Mma<T, kHead>;
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
  const int i0 = item.first;
  const int seq_k = a.visibility.seq_k;
  // Made where they are used: held over the loop they cost more registers than there are.
  const auto rows_of = [&](const KernelTensor& t, int width) {
    return head_rows<T>(t, fresh_unless_scalar(item.batch), fresh_unless_scalar(item.head_kv),
                        width);
  };
  const float unit = score_unit<C::kGeneral>(a.score);

  const int key_begin = shared::cf_keys_begin(a.visibility, i0) / C::kColumns * C::kColumns;
  const auto key_end = [&] {
    const int end = fresh_unless_scalar(i0) + C::kRows;
    return shared::cf_keys_end(a.visibility, end < a.seq_q ? end : a.seq_q);
  };
  copy_in<C::kThreads>(q_tile, head_rows<T>(a.q, item.batch, item.head, a.d), i0, a.seq_q);
  copy_in<C::kThreads>(k_ring.at(0), rows_of(a.k, a.d), key_begin, seq_k);
  if constexpr (C::kStages > 1)
    copy_in<C::kThreads>(v_ring.at(0), rows_of(a.v, a.d_v), key_begin, seq_k);
  copy_commit();

  OnlineSoftmax<C> state;
  int stage = 0;
#pragma unroll 1
  for (int j0 = key_begin; j0 < key_end(); j0 += C::kColumns, stage = (stage + 1) % C::kStages) {
    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = same_in_wave(thread / Mma::kWave) * C::kRowBlocks * 16;
    const int first = i0 + wave_row;
    const int last = first + C::kRowBlocks * 16;
    const bool more = j0 + C::kColumns < key_end();
    const int next = (stage + 1) % C::kStages;
    copy_wait<0>();
    __syncthreads();  // K is there, and tiles of the step before no longer in use
    if constexpr (C::kStages == 1) {
      copy_in<C::kThreads>(v_ring.at(0), rows_of(a.v, a.d_v), j0, seq_k);
    } else if (more) {
      copy_in<C::kThreads>(k_ring.at(next), rows_of(a.k, a.d), j0 + C::kColumns, seq_k);
      copy_in<C::kThreads>(v_ring.at(next), rows_of(a.v, a.d_v), j0 + C::kColumns, seq_k);
    }
    copy_commit();
    // No more to do for a wave of which no query sees one of these keys.
    if (C::kStages > 1 && (j0 >= shared::cf_keys_end(a.visibility, last) ||
                           j0 + C::kColumns <= shared::cf_keys_begin(a.visibility, first)))
      continue;
    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s;
    s.clear();
    add_product<C::kGeneral ? Product::plain : Product::spare>(s, q_tile, wave_row,
                                                               k_ring.at(stage), 0, lane);
    if constexpr (C::kStages == 1) {
      copy_wait<0>();
      __syncthreads();  // V is there, and K's tile no longer in use
      if (more) copy_in<C::kThreads>(k_ring.at(0), rows_of(a.k, a.d), j0 + C::kColumns, seq_k);
      copy_commit();
    }

    const Place<Mma, true> place{first, j0, lane};
    if constexpr (C::kGeneral)
      s.for_each([&](int, int, int, float& x) { x = shared::cf_score_value(a.score, x); });
    if (!shared::cf_tile_full(a.visibility, first, last, j0, j0 + C::kColumns))
      mask_scores(s, place, a.visibility, a.seq_q);
    state.add_scores(s, unit);
    if (C::kGeneral && (a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(s, place, a, item.flat(a), [](int, int, int, float& p, float z) { p *= z; });
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
  const int thread = fresh(static_cast<int>(threadIdx.x));
  const int lane = thread % Mma::kWave;
  const int wave_row = thread / Mma::kWave * C::kRowBlocks * 16;
  float* lse = head_values(a.lse, own.batch, own.head);
  state.m.for_each([&](int r, int slot, float& x) {
    const int i = own.first + wave_row + slot_row<Mma>(r, slot, lane);
    if (i < a.seq_q && Mma::column(lane, 0) == 0) lse[i * a.lse.seq] = x;
  });
  store_sum(state.o, q_tile, wave_row, 0, lane);
  __syncthreads();
  copy_out<C::kThreads>(q_tile, head_rows<T>(a.o, own.batch, own.head, a.d_v), own.first, a.seq_q);
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
