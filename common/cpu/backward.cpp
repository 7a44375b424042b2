// SPDX-License-Identifier: MIT
// backward.cpp: dQ, dK and dV: a task for each (batch, head, tile), cut as forward's are. What
// options add is in option_gradients.cpp.
#include "common/cpu/differentiate.h"
#include "common/cpu/option_gradients.h"
#include "common/shared/mask.h"

namespace crossflash::cpu {

using namespace shared;  // the contract's functions, all of which begin with cf_

namespace {

// D_i = dot(do_i, o_i); and nothing to mend until the row is known.
void row_dots(const Run& run, const Head& head, int i0, int i1) {
  const Rows& queries = head.sequence.queries;
  const auto d_v = static_cast<std::size_t>(run.problem.d_v);
  const auto borrowed = run.tiles.borrow();
  Tiles& t = *borrowed;
  load_rows(run.o, queries, head.h, i0, i1, t.held_v.data());
  load_rows(run.grad_o, queries, head.h, i0, i1, t.streamed_v.data());
  for (int i = i0; i < i1; ++i) {
    const std::size_t first = static_cast<std::size_t>(i - i0) * d_v;
    float sum = 0.0f;
    for (std::size_t c = first; c < first + d_v; ++c) sum += t.held_v[c] * t.streamed_v[c];
    run.delta[head.row + i] = sum;
    run.mend[head.row + i] = 1.0f;
  }
}

// Where S holds raw dot products and grad_p holds dP, leaves P (of keys: P z) in S and in grad_p
// the gradient of the raw dot product.
template <bool kRowsAreQueries>
void differentiate(const Run& run, int rows, const Intervals& seen, std::int64_t first, Tiles& t) {
  for_each_gradient<kRowsAreQueries>(
      run, rows, seen, first, t, [&](std::size_t at, float raw, float p, float grad_score) {
        t.grad_p[at] = grad_score * cf_score_gradient(run.problem.score, raw);
        t.s[at] = kRowsAreQueries ? p : p * t.keep[at];
      });
}

// In double: what is mended is of the size of f32's rounding, which equal p would add up to.
void add_rows(const std::vector<float>& tile, int rows, const Intervals& seen,
              std::array<double, kTile>& sums) {
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
    for (int x = seen[r].begin; x < seen[r].end; ++x)
      sums[r] += double{tile[r * kTile + static_cast<std::size_t>(x)]};
}

// dQ; and from the sums of P, which only this pass has, what the next must mend each row with.
void query_gradient_tile(const Run& run, const Head& head, int i0, int i1) {
  const auto d = static_cast<int>(run.problem.d);
  const Sequence& sequence = head.sequence;
  const cf_visibility& p = sequence.visibility;
  const std::int64_t first = head.row + i0;
  const auto borrowed = run.tiles.borrow();
  Tiles& t = *borrowed;

  load_rows(run.q, sequence.queries, head.h, i0, i1, t.held_d.data());       // Q (Br, d)
  load_rows(run.grad_o, sequence.queries, head.h, i0, i1, t.held_v.data());  // dO (Br, d_v)
  std::fill(t.sum_d.begin(), t.sum_d.end(), 0.0f);                           // dQ (Br, d)
  std::array<double, kTile> sums{};
  const int end = cf_keys_end(p, i1);
  for (int j0 = cf_keys_begin(p, i0); j0 < end; j0 += kTile) {
    const int j1 = std::min(j0 + kTile, end);
    const Block block{i0, i1, j0, j1};
    if (!has_bits(run, head, block)) continue;
    const Intervals seen = visible_keys(p, block);
    load_rows(run.k, sequence.keys, head.h_kv, j0, j1, t.streamed_d.data());  // K (Bc, d)
    load_rows(run.v, sequence.keys, head.h_kv, j0, j1, t.streamed_v.data());  // V (Bc, d_v)
    fill_modifiers(run, head, block, kQueriesDown, t);
    recompute(run.problem, i1 - i0, j1 - j0, t);
    differentiate<true>(run, i1 - i0, seen, first, t);
    add_rows(t.s, i1 - i0, seen, sums);
    product(t.grad_p, kTile, t.streamed_d, d, d, i1 - i0, seen, &t.sum_d);  // dQ += dS K
  }
  const float sink = sink_of(run, head.h);
  for (int r = 0; r < i1 - i0; ++r) {
    const float lse = run.lse[first + r];
    double& sum = sums[static_cast<std::size_t>(r)];
    if (!cf_is_neg_inf(sink)) sum += std::exp(double{sink} - double{lse});
    const float mend = cf_mend_row(static_cast<float>(sum), lse);
    run.mend[first + r] = mend;
    for (int c = 0; c < d; ++c) t.sum_d[static_cast<std::size_t>(r * d + c)] *= mend;
  }
  store_rows(t.sum_d.data(), run.grad_q, sequence.queries, head.h, i0, i1);
}

void key_gradient_tile(const Run& run, const Sequence& sequence, std::int64_t h_kv, int j0,
                       int j1) {
  const auto d = static_cast<int>(run.problem.d);
  const auto d_v = static_cast<int>(run.problem.d_v);
  const cf_visibility& p = sequence.visibility;
  const int seq_q = sequence.queries.count;
  const std::int64_t group = run.problem.group();
  const auto borrowed = run.tiles.borrow();
  Tiles& t = *borrowed;

  load_rows(run.k, sequence.keys, h_kv, j0, j1, t.held_d.data());  // K (Bc, d)
  load_rows(run.v, sequence.keys, h_kv, j0, j1, t.held_v.data());  // V (Bc, d_v)
  std::fill(t.sum_d.begin(), t.sum_d.end(), 0.0f);                 // dK (Bc, d)
  std::fill(t.sum_v.begin(), t.sum_v.end(), 0.0f);                 // dV (Bc, d_v)
  const int end = cf_queries_end(p, j1, seq_q);
  for (std::int64_t h = h_kv * group; h < (h_kv + 1) * group; ++h) {
    const Head head(run, sequence, h);
    for (int i0 = cf_queries_begin(p, j0, seq_q); i0 < end; i0 += kTile) {
      const int i1 = std::min(i0 + kTile, end);
      const Block block{i0, i1, j0, j1};
      if (!has_bits(run, head, block)) continue;
      const Intervals seen = visible_queries(p, block);
      load_rows(run.q, sequence.queries, h, i0, i1, t.streamed_d.data());       // Q (Br, d)
      load_rows(run.grad_o, sequence.queries, h, i0, i1, t.streamed_v.data());  // dO (Br, d_v)
      fill_modifiers(run, head, block, kKeysDown, t);
      recompute(run.problem, j1 - j0, i1 - i0, t);
      differentiate<false>(run, j1 - j0, seen, head.row + i0, t);
      product(t.s, kTile, t.streamed_v, d_v, d_v, j1 - j0, seen, &t.sum_v);   // dV += (P z)^T dO
      product(t.grad_p, kTile, t.streamed_d, d, d, j1 - j0, seen, &t.sum_d);  // dK += dS^T Q
    }
  }
  store_rows(t.sum_d.data(), run.grad_k, sequence.keys, h_kv, j0, j1);
  store_rows(t.sum_v.data(), run.grad_v, sequence.keys, h_kv, j0, j1);
}

}  // namespace

void backward(const Run& run) {
  const Problem& p = run.problem;
  const std::int64_t heads = p.batch * p.heads_q;
  for_each_tile(heads, p.seq_q, [&](std::int64_t n, int begin, int end) {
    const Head head(run, n);
    const Span span(p.sequences.q, head.sequence.queries, begin, end);
    if (span.begin < span.live) row_dots(run, head, span.begin, span.live);
  });
  for_each_tile(heads, p.seq_q, [&](std::int64_t n, int begin, int end) {
    const Head head(run, n);
    const Rows& rows = head.sequence.queries;
    const Span span(p.sequences.q, rows, begin, end);
    if (span.begin < span.live) query_gradient_tile(run, head, span.begin, span.live);
    clear_rows(run.grad_q, rows, head.h, span.live, span.end);
  });
  for_each_tile(p.batch * p.heads_kv, p.seq_k, [&](std::int64_t n, int begin, int end) {
    const Sequence sequence(run, n / p.heads_kv);
    const std::int64_t h_kv = n % p.heads_kv;
    const Span span(p.sequences.k, sequence.keys, begin, end);
    if (span.begin < span.live) key_gradient_tile(run, sequence, h_kv, span.begin, span.live);
    clear_rows(run.grad_k, sequence.keys, h_kv, span.live, span.end);
    clear_rows(run.grad_v, sequence.keys, h_kv, span.live, span.end);
  });
  if (p.bias.gradient) bias_gradient(run);
  if (p.sink_gradient) sink_gradient(run);
}

}  // namespace crossflash::cpu
