// SPDX-License-Identifier: MIT
// score.h: scores, masks and dropout on a register tile. Most problems have no feature beyond a
// positive scale; their kernels keep raw dot products and fold the scale into the exponential,
// exp(scale raw - m) = exp2(c raw - c m). The general kernels apply the shared definition of a
// score to every element first, and c is log2(e).
#pragma once

#include "common/shared/dropout.h"
#include "common/shared/mask.h"
#include "common/shared/score.h"
#include "common/shared/softmax.h"
#include "hip/kernels/launch.h"
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
        const auto draws =
            shared::cf_dropout_block(a.dropout, head, i, j / shared::CF_DROPOUT_KEYS);
#pragma unroll
        for (int n = 0; n < kShare; ++n) {
          const bool kept =
              shared::cf_dropout_keeps(a.dropout, draws, j + static_cast<shared::uint>(n));
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
      const auto draws = shared::cf_dropout_block(a.dropout, flat_head, i, j / 8);
#pragma unroll
      for (shared::uint bit = 0; bit < 8; ++bit)
        kept |= (shared::cf_dropout_keeps(a.dropout, draws, bit) ? 1u : 0u) << (8 * n + bit);
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

// P of one element (FlashAttention, Algorithm 4, line 13), in the place of its raw score; what is
// not visible comes as -inf. `slope` is d score / d raw, of general kernels.
template <bool kGeneral>
CF_DEVICE float probability(const shared::cf_score& score, float raw, float unit, float base,
                            float& slope) {
  slope = 1.0f;
  if constexpr (kGeneral) {
    if (shared::cf_is_neg_inf(raw)) {
      slope = 0.0f;
      return 0.0f;
    }
    slope = shared::cf_score_gradient(score, raw);
    raw = shared::cf_score_value(score, raw);
  }
  return exp2_fast(raw * unit - base);
}

}  // namespace crossflash::hip
