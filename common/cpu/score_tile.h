// SPDX-License-Identifier: MIT
// score_tile.h: what is known of a tile of scores before they are computed: which elements a row
// sees, what is added to them, what dropout makes of them. Tiles are (rows, kTile) with queries
// down or, for dK and dV, with keys down.
#pragma once

#include <array>

#include "common/cpu/multiply.h"
#include "common/cpu/sequence.h"
#include "common/shared/score.h"

namespace crossflash::cpu {

using Intervals = std::array<Interval, kTile>;

// Queries [i0, i1) and keys [j0, j1) of a head.
struct Block {
  int i0, i1, j0, j1;
};

// Distances in a tile between neighbouring queries and keys.
struct Layout {
  int query, key;
};
constexpr Layout kQueriesDown{kTile, 1};
constexpr Layout kKeysDown{1, kTile};

Intervals everywhere(int depth);
// For each of the block's queries the keys it sees, counted from j0.
Intervals visible_keys(const shared::cf_visibility& p, const Block& block);
// For each of the block's keys the queries that see it, counted from i0.
Intervals visible_queries(const shared::cf_visibility& p, const Block& block);

// Whether the mask leaves the block any element.
bool has_bits(const Run& run, const Head& head, const Block& block);

// Dropout's z; 1 without dropout.
void fill_keep(const Run& run, const Head& head, const Block& block, Layout at, float* keep);

// What the problem adds to scores.
void fill_added(const Run& run, const Head& head, const Block& block, Layout at, float* added);

// keep, and added if there is any.
inline void fill_modifiers(const Run& run, const Head& head, const Block& block, Layout at,
                           Tiles& t) {
  fill_keep(run, head, block, at, t.keep.data());
  if (adds_to_scores(run.problem)) fill_added(run, head, block, at, t.added.data());
}

// The score of a raw dot product; what is hidden is -inf whatever the product was.
template <bool kAdds>
inline float score_of(const shared::cf_score& score, float raw, const float* added) {
  const float s = shared::cf_score_value(score, raw);
  if constexpr (!kAdds) return s;
  return shared::cf_is_neg_inf(*added) ? *added : s + *added;
}

// The head's sink; without one -inf, which takes no part in the softmax.
inline float sink_of(const Run& run, std::int64_t h) {
  return run.problem.has(shared::CF_SINK) ? run.options.sink[h] : shared::cf_neg_inf();
}

// C = or += A B of tiles; a tile with kTile columns has that stride however few are in use.
inline void product(const std::vector<float>& a, int a_stride, const std::vector<float>& b,
                    int columns, int b_stride, int rows, const Intervals& depth,
                    std::vector<float>* c) {
  multiply_add(
      {a.data(), a_stride, b.data(), b_stride, c->data(), b_stride, rows, columns, depth.data()});
}

}  // namespace crossflash::cpu
