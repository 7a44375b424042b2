// SPDX-License-Identifier: MIT
// differentiate.h: backward's tile: S and dP from the rows of both sides, then P and the gradient
// of the score. Rows are queries, or keys with queries across.
#pragma once

#include "common/cpu/score_tile.h"
#include "common/shared/softmax.h"

namespace crossflash::cpu {

// S and dP of a tile from the held rows and the transposed streamed ones.
inline void recompute(const Problem& p, int rows, int columns, Tiles& t) {
  const auto d = static_cast<int>(p.d);
  const auto d_v = static_cast<int>(p.d_v);
  transpose(t.streamed_d.data(), columns, d, kTile, t.streamed_d_t.data());
  transpose(t.streamed_v.data(), columns, d_v, kTile, t.streamed_v_t.data());
  std::fill(t.s.begin(), t.s.end(), 0.0f);
  std::fill(t.grad_p.begin(), t.grad_p.end(), 0.0f);
  product(t.held_d, d, t.streamed_d_t, columns, kTile, rows, everywhere(d), &t.s);
  product(t.held_v, d_v, t.streamed_v_t, columns, kTile, rows, everywhere(d_v), &t.grad_p);
}

// element(at, raw, p, grad_score) for each visible element of a tile whose S holds raw dot products
// and whose grad_p holds dP. `first` is the row of lse of the tile's first query.
template <bool kRowsAreQueries, bool kAdds, typename Element>
inline void for_each_gradient(const Run& run, int rows, const Intervals& seen, std::int64_t first,
                              const Tiles& t, const Element& element) {
  const shared::cf_score& score = run.problem.score;
  for (int r = 0; r < rows; ++r) {
    const Interval row = seen[static_cast<std::size_t>(r)];
    for (int x = row.begin; x < row.end; ++x) {
      const auto at = static_cast<std::size_t>(r * kTile + x);
      const std::int64_t query = first + (kRowsAreQueries ? r : x);
      const float raw = t.s[at];
      const float s = score_of<kAdds>(score, raw, kAdds ? &t.added[at] : nullptr);
      const float p = shared::cf_probability(s, run.lse[query]) * run.mend[query];
      element(at, raw, p, p * (t.keep[at] * t.grad_p[at] - run.delta[query]));
    }
  }
}

// The same, when only the run knows whether it adds to scores.
template <bool kRowsAreQueries, typename Element>
inline void for_each_gradient(const Run& run, int rows, const Intervals& seen, std::int64_t first,
                              const Tiles& t, const Element& element) {
  adds_to_scores(run.problem)
      ? for_each_gradient<kRowsAreQueries, true>(run, rows, seen, first, t, element)
      : for_each_gradient<kRowsAreQueries, false>(run, rows, seen, first, t, element);
}

}  // namespace crossflash::cpu
