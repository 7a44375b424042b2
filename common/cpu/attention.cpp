// SPDX-License-Identifier: MIT
// attention.cpp: a task for each (batch, head, tile). Tiles are cut at the exact ends of what their
// rows can see, and within a tile each row works on the interval it sees: visibility is an interval
// along either axis (mask.h), so no element is tested one by one.
#include "common/cpu/attention.h"

#include <algorithm>

#include "common/cpu/multiply.h"
#include "common/parallel.h"
#include "common/shared/dropout.h"
#include "common/shared/mask.h"
#include "common/shared/score.h"
#include "common/shared/softmax.h"

namespace crossflash::cpu {

using namespace shared;  // the contract's functions, all of which begin with cf_

Tiles::Tiles(const Problem& problem) {
  const auto d = static_cast<std::size_t>(kTile * problem.d);
  const auto d_v = static_cast<std::size_t>(kTile * problem.d_v);
  for (auto* tile : {&held_d, &streamed_d, &streamed_d_t, &sum_d}) tile->resize(d);
  for (auto* tile : {&held_v, &streamed_v, &streamed_v_t, &sum_v}) tile->resize(d_v);
  for (auto* tile : {&s, &grad_p, &keep}) tile->resize(kTile * kTile);
}

namespace {

using Intervals = std::array<Interval, kTile>;

// A head of queries, with the head of keys it looks at.
struct Head {
  std::int64_t b, h, h_kv, flat;

  Head(const Problem& p, std::int64_t n)
      : b(n / p.heads_q), h(n % p.heads_q), h_kv(h / p.group()), flat(n) {}
};

std::int64_t tiles_of(std::int64_t length) { return (length + kTile - 1) / kTile; }

Intervals everywhere(int depth) {
  Intervals all;
  all.fill({0, depth});
  return all;
}

Interval within(Interval range, int begin, int end) {
  return {std::clamp(range.begin, begin, end) - begin, std::clamp(range.end, begin, end) - begin};
}

// For each of queries [i0, i1) the keys it sees, counted from j0, among keys [j0, j1).
Intervals visible_keys(const cf_visibility& p, int i0, int i1, int j0, int j1) {
  Intervals rows{};
  for (int i = i0; i < i1; ++i)
    rows[static_cast<std::size_t>(i - i0)] =
        within({cf_keys_begin(p, i), cf_keys_end(p, i + 1)}, j0, j1);
  return rows;
}

// For each of keys [j0, j1) the queries that see it, counted from i0, among queries [i0, i1).
Intervals visible_queries(const cf_visibility& p, int j0, int j1, int i0, int i1) {
  Intervals rows{};
  for (int j = j0; j < j1; ++j)
    rows[static_cast<std::size_t>(j - j0)] =
        within({cf_queries_begin(p, j, i1), cf_queries_end(p, j + 1, i1)}, i0, i1);
  return rows;
}

// Dropout's z for queries [i0, i1) and keys [j0, j1), at the given strides; 1 without dropout.
void fill_keep(const Run& run, const Head& head, int i0, int i1, int j0, int j1, int query_stride,
               int key_stride, float* keep) {
  const cf_score& score = run.problem.score;
  const bool drop = (score.features & CF_DROPOUT) != 0;
  const auto bh = static_cast<uint>(head.flat);
  uvec4 block(0u, 0u, 0u, 0u);
  for (int i = i0; i < i1; ++i)
    for (int j = j0; j < j1; ++j) {
      const auto key = static_cast<uint>(j);
      if (drop && (j == j0 || key % CF_DROPOUT_KEYS == 0))
        block = cf_dropout_block(run.dropout, bh, static_cast<uint>(i), key / CF_DROPOUT_KEYS);
      const bool kept = !drop || cf_dropout_keeps(run.dropout, block, key);
      keep[(i - i0) * query_stride + (j - j0) * key_stride] = kept ? score.keep_scale : 0.0f;
    }
}

// C = or += A B of tiles; a tile with kTile columns has that stride however few are in use.
void product(const std::vector<float>& a, int a_stride, const std::vector<float>& b, int columns,
             int b_stride, int rows, const Intervals& depth, std::vector<float>* c) {
  multiply_add(
      {a.data(), a_stride, b.data(), b_stride, c->data(), b_stride, rows, columns, depth.data()});
}

// ---- forward
// ---------------------------------------------------------------------------------------

// (m, l) of each row; its o is Tiles::sum_v.
struct SoftmaxState {
  std::array<float, kTile> m, l;

  SoftmaxState() {
    m.fill(cf_neg_inf());
    l.fill(0.0f);
  }
};

// Takes the visible scores of row r into its state, and leaves P z in their place.
void online_softmax(const Run& run, std::size_t r, Interval seen, Tiles& t, SoftmaxState& state) {
  const auto width = static_cast<std::size_t>(run.problem.d_v);
  float* s = &t.s[r * kTile];
  float* o = &t.sum_v[r * width];
  const float* keep = &t.keep[r * kTile];

  float m = state.m[r];
  for (int x = seen.begin; x < seen.end; ++x) {
    s[x] = cf_score_value(run.problem.score, s[x]);
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

void forward_tile(const Run& run, const Head& head, int i0, int i1) {
  const Problem& p = run.problem;
  const auto d = static_cast<int>(p.d);
  const auto d_v = static_cast<int>(p.d_v);
  const int rows = i1 - i0;
  const auto borrowed = run.tiles.borrow();
  Tiles& t = *borrowed;

  load_rows(run.q, head.b, head.h, i0, i1, t.held_d.data());  // Q (Br, d)
  std::fill(t.sum_v.begin(), t.sum_v.end(), 0.0f);            // O (Br, d_v)
  SoftmaxState state;
  const int end = cf_keys_end(p.visibility, i1);
  for (int j0 = cf_keys_begin(p.visibility, i0); j0 < end; j0 += kTile) {
    const int j1 = std::min(j0 + kTile, end);
    const Intervals seen = visible_keys(p.visibility, i0, i1, j0, j1);
    load_rows(run.k, head.b, head.h_kv, j0, j1, t.streamed_d.data());
    transpose(t.streamed_d.data(), j1 - j0, d, kTile, t.streamed_d_t.data());  // K^T (d, Bc)
    load_rows(run.v, head.b, head.h_kv, j0, j1, t.streamed_v.data());          // V (Bc, d_v)
    fill_keep(run, head, i0, i1, j0, j1, kTile, 1, t.keep.data());

    std::fill(t.s.begin(), t.s.end(), 0.0f);
    product(t.held_d, d, t.streamed_d_t, j1 - j0, kTile, rows, everywhere(d), &t.s);  // S = Q K^T
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
      online_softmax(run, r, seen[r], t, state);
    product(t.s, kTile, t.streamed_v, d_v, d_v, rows, seen, &t.sum_v);  // O += P V
  }

  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    const float inverse = cf_inverse_sum(state.l[r]);
    float* o = &t.sum_v[r * static_cast<std::size_t>(d_v)];
    for (int c = 0; c < d_v; ++c) o[c] *= inverse;
    run.lse[head.flat * p.seq_q + i0 + static_cast<int>(r)] = cf_lse(state.m[r], state.l[r]);
  }
  store_rows(t.sum_v.data(), run.o, head.b, head.h, i0, i1);
}

// ---- backward
// --------------------------------------------------------------------------------------

// D_i = dot(do_i, o_i)
void row_dots(const Run& run, const Head& head, int i0, int i1) {
  const auto d_v = static_cast<std::size_t>(run.problem.d_v);
  const auto borrowed = run.tiles.borrow();
  Tiles& t = *borrowed;
  load_rows(run.o, head.b, head.h, i0, i1, t.held_v.data());
  load_rows(run.grad_o, head.b, head.h, i0, i1, t.streamed_v.data());
  for (int i = i0; i < i1; ++i) {
    const std::size_t first = static_cast<std::size_t>(i - i0) * d_v;
    float sum = 0.0f;
    for (std::size_t c = first; c < first + d_v; ++c) sum += t.held_v[c] * t.streamed_v[c];
    run.delta[head.flat * run.problem.seq_q + i] = sum;
  }
}

// Where S holds raw dot products and grad_p holds dP, leaves P z in S and in grad_p the gradient of
// the raw dot product. Rows are queries, or keys with queries across; lse and delta are the
// queries'.
template <bool kRowsAreQueries>
void differentiate(const cf_score& score, int rows, const Intervals& seen, const float* lse,
                   const float* delta, Tiles& t) {
  for (int r = 0; r < rows; ++r) {
    const Interval row = seen[static_cast<std::size_t>(r)];
    for (int x = row.begin; x < row.end; ++x) {
      const auto at = static_cast<std::size_t>(r * kTile + x);
      const int query = kRowsAreQueries ? r : x;
      const float raw = t.s[at];
      const float p = cf_probability(cf_score_value(score, raw), lse[query]);
      const float grad_score = p * (t.keep[at] * t.grad_p[at] - delta[query]);
      t.grad_p[at] = grad_score * cf_score_gradient(score, raw);
      t.s[at] = p * t.keep[at];
    }
  }
}

// S and dP of a tile from the held rows and the transposed streamed ones.
void recompute(const Problem& p, int rows, int columns, Tiles& t) {
  const auto d = static_cast<int>(p.d);
  const auto d_v = static_cast<int>(p.d_v);
  transpose(t.streamed_d.data(), columns, d, kTile, t.streamed_d_t.data());
  transpose(t.streamed_v.data(), columns, d_v, kTile, t.streamed_v_t.data());
  std::fill(t.s.begin(), t.s.end(), 0.0f);
  std::fill(t.grad_p.begin(), t.grad_p.end(), 0.0f);
  product(t.held_d, d, t.streamed_d_t, columns, kTile, rows, everywhere(d), &t.s);
  product(t.held_v, d_v, t.streamed_v_t, columns, kTile, rows, everywhere(d_v), &t.grad_p);
}

void query_gradient_tile(const Run& run, const Head& head, int i0, int i1) {
  const Problem& p = run.problem;
  const auto d = static_cast<int>(p.d);
  const std::int64_t first = head.flat * p.seq_q + i0;
  const auto borrowed = run.tiles.borrow();
  Tiles& t = *borrowed;

  load_rows(run.q, head.b, head.h, i0, i1, t.held_d.data());       // Q (Br, d)
  load_rows(run.grad_o, head.b, head.h, i0, i1, t.held_v.data());  // dO (Br, d_v)
  std::fill(t.sum_d.begin(), t.sum_d.end(), 0.0f);                 // dQ (Br, d)
  const int end = cf_keys_end(p.visibility, i1);
  for (int j0 = cf_keys_begin(p.visibility, i0); j0 < end; j0 += kTile) {
    const int j1 = std::min(j0 + kTile, end);
    const Intervals seen = visible_keys(p.visibility, i0, i1, j0, j1);
    load_rows(run.k, head.b, head.h_kv, j0, j1, t.streamed_d.data());  // K (Bc, d)
    load_rows(run.v, head.b, head.h_kv, j0, j1, t.streamed_v.data());  // V (Bc, d_v)
    fill_keep(run, head, i0, i1, j0, j1, kTile, 1, t.keep.data());
    recompute(p, i1 - i0, j1 - j0, t);
    differentiate<true>(p.score, i1 - i0, seen, run.lse + first, run.delta + first, t);
    product(t.grad_p, kTile, t.streamed_d, d, d, i1 - i0, seen, &t.sum_d);  // dQ += dS K
  }
  store_rows(t.sum_d.data(), run.grad_q, head.b, head.h, i0, i1);
}

void key_gradient_tile(const Run& run, std::int64_t b, std::int64_t h_kv, int j0, int j1) {
  const Problem& p = run.problem;
  const auto d = static_cast<int>(p.d);
  const auto d_v = static_cast<int>(p.d_v);
  const auto seq_q = static_cast<int>(p.seq_q);
  const auto borrowed = run.tiles.borrow();
  Tiles& t = *borrowed;

  load_rows(run.k, b, h_kv, j0, j1, t.held_d.data());  // K (Bc, d)
  load_rows(run.v, b, h_kv, j0, j1, t.held_v.data());  // V (Bc, d_v)
  std::fill(t.sum_d.begin(), t.sum_d.end(), 0.0f);     // dK (Bc, d)
  std::fill(t.sum_v.begin(), t.sum_v.end(), 0.0f);     // dV (Bc, d_v)
  const int end = cf_queries_end(p.visibility, j1, seq_q);
  for (std::int64_t member = 0; member < p.group(); ++member) {
    const Head head(p, b * p.heads_q + h_kv * p.group() + member);
    for (int i0 = cf_queries_begin(p.visibility, j0, seq_q); i0 < end; i0 += kTile) {
      const int i1 = std::min(i0 + kTile, end);
      const Intervals seen = visible_queries(p.visibility, j0, j1, i0, i1);
      const std::int64_t first = head.flat * p.seq_q + i0;
      load_rows(run.q, b, head.h, i0, i1, t.streamed_d.data());       // Q (Br, d)
      load_rows(run.grad_o, b, head.h, i0, i1, t.streamed_v.data());  // dO (Br, d_v)
      fill_keep(run, head, i0, i1, j0, j1, 1, kTile, t.keep.data());
      recompute(p, j1 - j0, i1 - i0, t);
      differentiate<false>(p.score, j1 - j0, seen, run.lse + first, run.delta + first, t);
      product(t.s, kTile, t.streamed_v, d_v, d_v, j1 - j0, seen, &t.sum_v);   // dV += (P z)^T dO
      product(t.grad_p, kTile, t.streamed_d, d, d, j1 - j0, seen, &t.sum_d);  // dK += dS^T Q
    }
  }
  store_rows(t.sum_d.data(), run.grad_k, b, h_kv, j0, j1);
  store_rows(t.sum_v.data(), run.grad_v, b, h_kv, j0, j1);
}

// task(head, begin, end) for each tile of each of `heads` heads of `length` rows.
template <typename Task>
void for_each_tile(std::int64_t heads, std::int64_t length, const Task& task) {
  const std::int64_t tiles = tiles_of(length);
  parallel_for(heads * tiles, [&](std::int64_t n) {
    const std::int64_t begin = n % tiles * kTile;
    task(n / tiles, static_cast<int>(begin), static_cast<int>(std::min(begin + kTile, length)));
  });
}

}  // namespace

void forward(const Run& run) {
  const Problem& p = run.problem;
  for_each_tile(p.batch * p.heads_q, p.seq_q, [&](std::int64_t n, int begin, int end) {
    forward_tile(run, Head(p, n), begin, end);
  });
}

void backward(const Run& run) {
  const Problem& p = run.problem;
  const std::int64_t heads = p.batch * p.heads_q;
  for_each_tile(heads, p.seq_q,
                [&](std::int64_t n, int begin, int end) { row_dots(run, Head(p, n), begin, end); });
  for_each_tile(heads, p.seq_q, [&](std::int64_t n, int begin, int end) {
    query_gradient_tile(run, Head(p, n), begin, end);
  });
  for_each_tile(p.batch * p.heads_kv, p.seq_k, [&](std::int64_t n, int begin, int end) {
    key_gradient_tile(run, n / p.heads_kv, n % p.heads_kv, begin, end);
  });
}

}  // namespace crossflash::cpu
