// SPDX-License-Identifier: MIT
// score.h: scores, masks and dropout on a register tile. Most problems have no feature beyond a
// positive scale; their kernels keep raw dot products and fold the scale into the exponential,
// exp(scale raw - m) = exp2(c raw - c m). The general kernels apply the shared definition of a
// score to every element first, and c is log2(e).
#pragma once

#include <type_traits>

#include "common/shared/dropout.h"
#include "common/shared/mask.h"
#include "common/shared/score.h"
#include "common/shared/softmax.h"
#include "hip/kernels/item.h"
#include "hip/tile/fragment.h"

namespace crossflash::hip {

// c: what one unit of a kernel's scores means in the exponent of 2.
template <bool kGeneral>
CF_DEVICE float score_unit(const shared::cf_score& score) {
  return kGeneral ? shared::CF_LOG2E : score.scale * shared::CF_LOG2E;
}

// What a gradient of raw scores still lacks when they are summed.
template <bool kGeneral>
CF_DEVICE float gradient_unit(const shared::cf_score& score) {
  return kGeneral ? 1.0f : score.scale;
}

// Which query and key a value of a register tile belongs to: rows are queries and columns keys, or
// the other way round; `query` and `key` are those of the tile's corner.
template <class Mma, bool kRowsAreQueries_>
struct Place {
  static constexpr bool kRowsAreQueries = kRowsAreQueries_;
  int query, key, lane;

  CF_DEVICE int query_of(int r, int c, int v) const {
    return query + (kRowsAreQueries ? 16 * r + Mma::row(lane, v) : 16 * c + Mma::column(lane, v));
  }
  CF_DEVICE int key_of(int r, int c, int v) const {
    return key + (kRowsAreQueries ? 16 * c + Mma::column(lane, v) : 16 * r + Mma::row(lane, v));
  }
  CF_DEVICE int query_of_row(int n) const { return query + n; }
  // Heads past the one that for_each_kept is told.
  CF_DEVICE int head_of(int, int) const { return 0; }
};

// Scores of elements that are not visible = -inf. What a row sees is an interval of the columns.
template <class F, class P>
CF_DEVICE void mask_scores(F& s, const P& place, const shared::cf_visibility& visibility,
                           int seq_q) {
  using Mma = typename F::Mma;
#pragma unroll
  for (int r = 0; r < F::kRowBlocks; ++r) {
    int begin[Mma::kSlots], length[Mma::kSlots];
#pragma unroll
    for (int slot = 0; slot < Mma::kSlots; ++slot) {
      const int row = slot_row<Mma>(r, slot, place.lane);
      int end;
      if constexpr (P::kRowsAreQueries) {
        const int i = place.query_of_row(row);
        begin[slot] = shared::cf_keys_begin(visibility, i) - place.key;
        end = shared::cf_keys_end(visibility, i + 1) - place.key;
      } else {
        const int j = place.key + row;
        begin[slot] = shared::cf_queries_begin(visibility, j, seq_q) - place.query;
        end = j < visibility.seq_k ? shared::cf_queries_end(visibility, j + 1, seq_q) - place.query
                                   : begin[slot];
      }
      length[slot] = end > begin[slot] ? end - begin[slot] : 0;
    }
    s.for_each_in(r, [&](int c, int v, float& x) {
      const int column = 16 * c + Mma::column(place.lane, v) - begin[Mma::slot(v)];
      const bool inside =
          static_cast<unsigned>(column) < static_cast<unsigned>(length[Mma::slot(v)]);
      x = inside ? x : shared::cf_neg_inf();
    });
  }
}

// What options say of the scores of a sequence's head: what is added to them (bias, ALiBi), which
// of them a mask hides. T: the tensors' elements, of which a bias may be. Where rows are of several
// heads (Place::head_of), `head` is the first of them.
template <class T>
struct ScoreOptions {
  const KernelArguments& a;
  int batch, head;
  int seq_q, seq_k, diagonal;

  template <bool kGeneral>
  CF_DEVICE ScoreOptions(const KernelArguments& arguments, int b, int h,
                         const Sequence<kGeneral>& sequence)
      : a(arguments),
        batch(b),
        head(h),
        seq_q(sequence.seq_q()),
        seq_k(sequence.seq_k()),
        diagonal(sequence.visibility().diagonal) {}

  CF_DEVICE bool has(shared::uint feature) const { return (a.score.features & feature) != 0; }

  // Calls body(term) with the function term(place, r, c, v), what is added to that element's score;
  // outside of the sequence no bias is read. `body` is there once for each type a bias may have, so
  // that it is asked for outside of the body's loops.
  template <class Body>
  CF_DEVICE void with_terms(Body body) const {
    if (!has(shared::CF_BIAS)) {
      body(Terms<void>{*this});
    } else if (sizeof(T) == sizeof(float) || a.options.bias_dtype == shared::CF_F32) {
      body(Terms<float>{*this});
    } else {
      if constexpr (sizeof(T) != sizeof(float)) body(Terms<T>{*this});
    }
  }

  // Scores in the place of raw dot products.
  template <class F, class P>
  CF_DEVICE void apply(F& s, const P& place) const {
    s.for_each([&](int, int, int, float& x) { x = shared::cf_score_value(a.score, x); });
    if (!has(shared::CF_BIAS | shared::CF_ALIBI)) return;
    with_terms([&](auto term) {
      s.for_each([&](int r, int c, int v, float& x) { x += term(place, r, c, v); });
    });
  }

  // Scores that the mask hides = -inf.
  template <class F, class P>
  CF_DEVICE void mask(F& s, const P& place) const {
    if (!has(shared::CF_MASK)) return;
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r)
      s.for_each_in(r, [&](int c, int v, float& x) {
        const int first = place.key + 16 * (P::kRowsAreQueries ? c : r);  // a word has all sixteen
        const shared::uint bits =
            mask_word(place.query_of(r, c, v), head + place.head_of(r, v), first);
        const int bit = first % 32 + (place.key_of(r, c, v) - first);
        if ((bits >> bit & 1u) == 0) x = shared::cf_neg_inf();
      });
  }

  // Whether the mask has a bit in a tile of keys [j0, ...), a multiple of their number, and `kRows`
  // queries, of which row n is query(n) of head(n). The answer is the same in the whole block: each
  // of its waves looks at all the words, so that none waits for another.
  template <int kWave, int kRows, int kColumns, class QueryOf, class HeadOf>
  CF_DEVICE bool sees(int j0, QueryOf query, HeadOf head_of) const {
    if (!has(shared::CF_MASK)) return true;
    constexpr int kWords = (kColumns + 31) / 32;
    const int lane = static_cast<int>(threadIdx.x) % kWave;
    shared::uint any = 0;
#pragma unroll 4
    for (int n = lane; n < kRows * kWords; n += kWave) {
      const int row = n / kWords;
      const int first = (j0 / 32 + n % kWords) * 32;
      const int from = j0 > first ? j0 - first : 0;  // bits of this tile
      const int left = j0 + kColumns - first;
      if (left <= 0) continue;
      const shared::uint inside = ~0u << from & (left < 32 ? (1u << left) - 1u : ~0u);
      any |= mask_word(query(row), head_of(row), first) & inside;
    }
    return any_lane(any != 0);
  }

 private:
  template <class B>
  struct Terms {
    const ScoreOptions& o;

    template <class P>
    CF_DEVICE float operator()(const P& place, int r, int c, int v) const {
      const int i = place.query_of(r, c, v);
      const int j = place.key_of(r, c, v);
      const int h = o.head + place.head_of(r, v);
      float x = 0.0f;
      if constexpr (!std::is_void_v<B>) {
        const KernelScores& bias = o.a.options.bias;
        if (i < o.seq_q && j < o.seq_k)
          x = to_float(static_cast<const B*>(
              bias.data)[o.batch * bias.batch + h * bias.head + i * bias.seq_q + j * bias.seq_k]);
      }
      const float slope = o.has(shared::CF_ALIBI) ? o.a.options.alibi[h] : 0.0f;
      return x + shared::cf_alibi(slope, i + o.diagonal - j);
    }
  };

  // The word of the mask with key j's bit, j in a tile's rows; none outside of the sequence.
  CF_DEVICE shared::uint mask_word(int i, int h, int j) const {
    const KernelScores& m = a.options.mask;
    const auto* const words = static_cast<const shared::uint*>(m.data);
#ifdef __CUDACC__
    if (i >= seq_q || j >= seq_k) return 0;
    return words[batch * m.batch + h * m.head + i * m.seq_q + j / 32];
#else
    // Without a branch; what is not there loads word 0. With one clang 22 joins it to the test of
    // the bit, and then of lanes that did load a word none loses its score.
    const bool there = i < seq_q && j < seq_k;
    const std::int64_t at = batch * m.batch + h * m.head + i * m.seq_q + j / 32;
    const shared::uint word = words[there ? at : 0];
    return there ? word : 0u;
#endif
  }
};

// The run's random state, which may be known to the device alone.
CF_DEVICE shared::cf_dropout dropout_of(const KernelArguments& a) {
  shared::cf_dropout state = a.dropout;
  if (a.options.random == nullptr) return state;
  const std::uint64_t seed = a.options.random[0];
  state.seed_lo = static_cast<shared::uint>(seed);
  state.seed_hi = static_cast<shared::uint>(seed >> 32);
  state.offset = static_cast<shared::uint>(a.options.random[1]);
  return state;
}

// z dP with dropout's factor z. It is rounded by itself, as D is that it is compared with: fused
// with the difference it would not be 0 where a query sees one key.
template <bool kGeneral>
CF_DEVICE float kept_gradient(float grad_p, float z) {
  return kGeneral ? rounded_product(grad_p, z) : grad_p;
}

// use(row block, column block, value index, value, z) with dropout's factor z of each element, 0 or
// 1/(1 - p). Neighbouring values that share a block of draws draw it once.
template <class F, class P, class Use>
CF_DEVICE void for_each_kept(F& s, const P& place, const KernelArguments& a, shared::uint flat_head,
                             Use use) {
  using Mma = typename F::Mma;
  const shared::cf_dropout dropout = dropout_of(a);
  constexpr int kShare = P::kRowsAreQueries ? Mma::kRun : 1;
#pragma unroll
  for (int r = 0; r < F::kRowBlocks; ++r)
#pragma unroll
    for (int c = 0; c < F::kColumnBlocks; ++c)
#pragma unroll
      for (int first = 0; first < Mma::kValues; first += kShare) {
        const auto i = static_cast<shared::uint>(place.query_of(r, c, first));
        const auto j = static_cast<shared::uint>(place.key_of(r, c, first));
        const auto head = flat_head + static_cast<shared::uint>(place.head_of(r, first));
        const auto draws = shared::cf_dropout_block(dropout, head, i, j / shared::CF_DROPOUT_KEYS);
#pragma unroll
        for (int n = 0; n < kShare; ++n) {
          const bool kept =
              shared::cf_dropout_keeps(dropout, draws, j + static_cast<shared::uint>(n));
          use(r, c, first + n, s.x[r][c][first + n], kept ? a.score.keep_scale : 0.0f);
        }
      }
}

// The same where rows are keys. A 16 x 16 block has 32 blocks of draws, eight keys of a query each:
// a lane makes one of them and hands out what it says as eight bits; four blocks travel together.
template <class F, class P, class Use>
CF_DEVICE void for_each_kept_down(F& s, const P& place, const KernelArguments& a,
                                  shared::uint flat_head, Use use) {
  using Mma = typename F::Mma;
  static_assert(!P::kRowsAreQueries && shared::CF_DROPOUT_KEYS == 8);
  const shared::cf_dropout dropout = dropout_of(a);
  const int lane = place.lane;
#pragma unroll
  for (int first = 0; first < F::kRowBlocks * F::kColumnBlocks; first += 4) {
    shared::uint kept = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int r = (first + n) / F::kColumnBlocks;
      const int c = (first + n) % F::kColumnBlocks;
      if (first + n >= F::kRowBlocks * F::kColumnBlocks) break;
      const auto i = static_cast<shared::uint>(place.query + 16 * c + lane % 16);
      const auto j = static_cast<shared::uint>(place.key + 16 * r + lane / 16 % 2 * 8);
      const auto draws = shared::cf_dropout_block(dropout, flat_head, i, j / 8);
#pragma unroll
      for (shared::uint bit = 0; bit < 8; ++bit)
        kept |= (shared::cf_dropout_keeps(dropout, draws, bit) ? 1u : 0u) << (8 * n + bit);
    }
#pragma unroll
    for (int v = 0; v < Mma::kValues; ++v) {
      const int key = Mma::row(lane, v);
      const shared::uint bits = shuffle(kept, Mma::column(lane, v) + key / 8 * 16) >> (key % 8);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int r = (first + n) / F::kColumnBlocks;
        const int c = (first + n) % F::kColumnBlocks;
        if (first + n >= F::kRowBlocks * F::kColumnBlocks) break;
        use(r, c, v, s.x[r][c][v], (bits >> (8 * n) & 1u) != 0 ? a.score.keep_scale : 0.0f);
      }
    }
  }
}

// What backward subtracts in the exponent for a row of this LSE. A row that saw no key gets +inf:
// whatever its scores, its weights are exp2(-inf) = 0.
CF_DEVICE float backward_base(float lse) {
  return shared::cf_is_neg_inf(lse) ? -shared::cf_neg_inf() : lse * shared::CF_LOG2E;
}

// P of one element (FlashAttention, Algorithm 4, line 13), from its raw score; what is not visible
// comes as -inf. Of general kernels, `term` is what is added to the score and `slope` d score / d
// raw.
template <bool kGeneral>
CF_DEVICE float probability(const shared::cf_score& score, float raw, float term, float unit,
                            float base, float& slope) {
  slope = 1.0f;
  if constexpr (kGeneral) {
    if (shared::cf_is_neg_inf(raw)) {
      slope = 0.0f;
      return 0.0f;
    }
    slope = shared::cf_score_gradient(score, raw);
    raw = shared::cf_score_value(score, raw) + term;
  }
  return exp2_fast(raw * unit - base);
}

}  // namespace crossflash::hip
