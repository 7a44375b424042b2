// SPDX-License-Identifier: MIT
// forward.cpp: a task for each (batch, head, tile of queries). Tiles are cut at the exact ends of
// what their rows can see, and within a tile each row works on the interval it sees: visibility is
// an interval along either axis (mask.h), so no element is tested one by one.
#include "common/cpu/score_tile.h"
#include "common/shared/mask.h"
#include "common/shared/softmax.h"

namespace crossflash::cpu {

using namespace shared;  // the contract's functions, all of which begin with cf_

namespace {

// (m, l) of each row, which begins with the sink; its o is Tiles::sum_v.
struct SoftmaxState {
  std::array<float, kTile> m, l;

  explicit SoftmaxState(float sink) {
    m.fill(sink);
    l.fill(cf_is_neg_inf(sink) ? 0.0f : 1.0f);
  }
};

// Takes the visible scores of row r into its state, and leaves P z in their place.
template <bool kAdds>
void online_softmax(const Run& run, std::size_t r, Interval seen, Tiles& t, SoftmaxState& state) {
  const auto width = static_cast<std::size_t>(run.problem.d_v);
  float* s = &t.s[r * kTile];
  float* o = &t.sum_v[r * width];
  const float* keep = &t.keep[r * kTile];
  const float* added = kAdds ? &t.added[r * kTile] : s;

  float m = state.m[r];
  for (int x = seen.begin; x < seen.end; ++x) {
    s[x] = score_of<kAdds>(run.problem.score, s[x], added + x);
    m = cf_combine_max(m, s[x]);
  }
  const float rescale = cf_rescale(state.m[r], m);
  float l = state.l[r] * rescale;
  for (int x = seen.begin; x < seen.end; ++x) {
    const float weight = cf_weight(s[x], m);
    l += weight;
    s[x] = weight * keep[x];
  }
  for (std::size_t c = 0; c < width; ++c) o[c] *= rescale;
  state.m[r] = m;
  state.l[r] = l;
}

void online_softmax(const Run& run, int rows, const Intervals& seen, Tiles& t,
                    SoftmaxState& state) {
  const bool adds = adds_to_scores(run.problem);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
    adds ? online_softmax<true>(run, r, seen[r], t, state)
         : online_softmax<false>(run, r, seen[r], t, state);
}

void forward_tile(const Run& run, const Head& head, int i0, int i1) {
  const auto d = static_cast<int>(run.problem.d);
  const auto d_v = static_cast<int>(run.problem.d_v);
  const Sequence& sequence = head.sequence;
  const cf_visibility& p = sequence.visibility;
  const int rows = i1 - i0;
  const auto borrowed = run.tiles.borrow();
  Tiles& t = *borrowed;

  load_rows(run.q, sequence.queries, head.h, i0, i1, t.held_d.data());  // Q (Br, d)
  std::fill(t.sum_v.begin(), t.sum_v.end(), 0.0f);                      // O (Br, d_v)
  SoftmaxState state(sink_of(run, head.h));
  const int end = cf_keys_end(p, i1);
  for (int j0 = cf_keys_begin(p, i0); j0 < end; j0 += kTile) {
    const int j1 = std::min(j0 + kTile, end);
    const Block block{i0, i1, j0, j1};
    if (!has_bits(run, head, block)) continue;
    const Intervals seen = visible_keys(p, block);
    load_rows(run.k, sequence.keys, head.h_kv, j0, j1, t.streamed_d.data());
    transpose(t.streamed_d.data(), j1 - j0, d, kTile, t.streamed_d_t.data());  // K^T (d, Bc)
    load_rows(run.v, sequence.keys, head.h_kv, j0, j1, t.streamed_v.data());   // V (Bc, d_v)
    fill_modifiers(run, head, block, kQueriesDown, t);

    std::fill(t.s.begin(), t.s.end(), 0.0f);
    product(t.held_d, d, t.streamed_d_t, j1 - j0, kTile, rows, everywhere(d), &t.s);  // S = Q K^T
    online_softmax(run, rows, seen, t, state);
    product(t.s, kTile, t.streamed_v, d_v, d_v, rows, seen, &t.sum_v);  // O += P V
  }

  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    const float inverse = cf_inverse_sum(state.l[r]);
    float* o = &t.sum_v[r * static_cast<std::size_t>(d_v)];
    for (int c = 0; c < d_v; ++c) o[c] *= inverse;
    run.lse[head.row + i0 + static_cast<int>(r)] = cf_lse(state.m[r], state.l[r]);
  }
  store_rows(t.sum_v.data(), run.o, sequence.queries, head.h, i0, i1);
}

}  // namespace

void forward(const Run& run) {
  const Problem& p = run.problem;
  for_each_tile(p.batch * p.heads_q, p.seq_q, [&](std::int64_t n, int begin, int end) {
    const Head head(run, n);
    const Rows& rows = head.sequence.queries;
    const Span span(p.sequences.q, rows, begin, end);
    if (span.begin < span.live) forward_tile(run, head, span.begin, span.live);
    clear_rows(run.o, rows, head.h, span.live, span.end);
    std::fill(run.lse + head.row + span.live, run.lse + head.row + span.end, cf_neg_inf());
  });
}

}  // namespace crossflash::cpu
