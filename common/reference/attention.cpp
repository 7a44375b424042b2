// SPDX-License-Identifier: MIT
// attention.cpp: the contract, row by row. One text for both references, since they differ only in
// the numbers they compute with: `Real` and the rounding of what an unfused computation would
// store. A task is one key head with its group of query heads, so that no two tasks share a sum; it
// holds O(seq) numbers: the head's K and V, and one row of everything that is seq_q x seq_k.
#include "common/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/half.h"
#include "common/parallel.h"
#include "common/shared/dropout.h"
#include "common/shared/mask.h"
#include "common/shared/score.h"
#include "common/shared/sequence.h"

namespace crossflash::reference {
namespace {

using shared::uint;

struct Exact {
  using Real = double;
  static constexpr bool kExact = true;
  double round(double x) const { return x; }
};

struct Plain {
  using Real = float;
  static constexpr bool kExact = false;
  crossflash_dtype dtype;
  float round(float x) const { return round_to(dtype, x); }
};

// One head of a sequence in a contiguous [batch, seq, heads, width] tensor.
struct HeadView {
  SideRows rows;
  std::int64_t heads, head, width;

  HeadView(const Tensor& t, const SideRows& where, std::int64_t h)
      : rows(where), heads(t.heads), head(h), width(t.width) {}
  std::size_t at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>((rows.flat(row) * heads + head) * width + column);
  }
};

SideRows side_rows(crossflash_rows kind, const std::vector<std::int64_t>& rows, std::int64_t most,
                   std::int64_t total, std::int64_t b) {
  const auto at = [&](std::int64_t n) {
    return static_cast<int>(
        std::clamp<std::int64_t>(rows[static_cast<std::size_t>(n)], -1, 0x7fffffff));
  };
  if (kind == CROSSFLASH_ROWS_ALL) return {b * most, most, nullptr, 0};
  if (kind == CROSSFLASH_ROWS_LENGTHS)
    return {b * most, shared::cf_padded_rows(at(b), static_cast<int>(most)).count, nullptr, 0};
  const shared::cf_rows r =
      shared::cf_packed_rows(at(b), at(b + 1), static_cast<int>(total), static_cast<int>(most));
  return {r.first, r.count, nullptr, 0};
}

template <typename Real>
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns)
      : columns_(columns), data_(static_cast<std::size_t>(rows * columns)) {}
  Real* operator[](std::int64_t row) { return data_.data() + row * columns_; }
  const Real* operator[](std::int64_t row) const { return data_.data() + row * columns_; }

 private:
  std::int64_t columns_;
  std::vector<Real> data_;
};

// to += factor * row: the loop that every product here is made of. Each element of a product is
// thus a sum in naive order, while the loop runs over neighbours and vectorises.
template <typename Real>
void add_scaled(Real* __restrict to, Real factor, const Real* __restrict row, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) to[c] += factor * row[c];
}

// to = vector (1, n) times matrix (n, columns).
template <typename Real>
void multiply(std::vector<Real>& to, const std::vector<Real>& vector, const Matrix<Real>& matrix) {
  to.assign(to.size(), Real(0));
  for (std::size_t c = 0; c < vector.size(); ++c)
    add_scaled(to.data(), vector[c], matrix[static_cast<std::int64_t>(c)],
               static_cast<std::int64_t>(to.size()));
}

template <typename Arithmetic>
class Attention {
  using Real = typename Arithmetic::Real;
  using Row = std::vector<Real>;
  static constexpr Real kNegInf = -std::numeric_limits<Real>::infinity();

  // A sequence of the batch: where its rows lie and what its queries see.
  struct Sequence {
    std::int64_t b;
    SideRows queries, keys;
    shared::cf_visibility visibility;
  };

  // K and V of one key head, both ways round, and the sums of their gradients.
  struct KeyHead {
    Matrix<Real> k, k_transposed, v, v_transposed, grad_k, grad_v;

    KeyHead(const Problem& p, std::int64_t keys)
        : k(keys, p.d),
          k_transposed(p.d, keys),
          v(keys, p.d_v),
          v_transposed(p.d_v, keys),
          grad_k(p.backward ? keys : 0, p.d),
          grad_v(p.backward ? keys : 0, p.d_v) {}
  };

  // What one query has: its own vectors, and a number for each key.
  struct Query {
    std::int64_t b, h, i;
    Row q, o, grad_o, grad_q;         // (d) or (d_v)
    Row raw, score, p, keep, grad_p;  // (keys); keep is dropout's z, score is -inf if unseen
    Real lse = 0;

    Query(const Problem& problem, std::int64_t keys)
        : q(size(problem.d)),
          o(size(problem.d_v)),
          grad_o(size(problem.d_v)),
          grad_q(size(problem.d)),
          raw(size(keys)),
          score(raw),
          p(raw),
          keep(raw),
          grad_p(raw) {}
    static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
    bool sees(std::size_t j) const { return score[j] != kNegInf; }
  };

 public:
  Attention(const Problem& problem, const Inputs& inputs, Arithmetic arithmetic)
      : problem_(problem), inputs_(inputs), arithmetic_(arithmetic) {}

  Outputs run() {
    out_.o.resize(elements(TensorId::o));
    out_.lse.resize(elements(TensorId::lse), kNegInf);
    if (problem_.backward) {
      out_.grad_q.resize(elements(TensorId::q));
      out_.grad_k.resize(elements(TensorId::k));
      out_.grad_v.resize(elements(TensorId::v));
      grad_bias_.resize(extent(OptionId::grad_bias));
      grad_sink_.resize(extent(OptionId::grad_sink));
    }
    const std::int64_t tasks = problem_.batch * problem_.heads_kv;
    const auto task = [this](std::int64_t n) {
      run_key_head(n / problem_.heads_kv, n % problem_.heads_kv);
    };
    if (grad_bias_.empty() && grad_sink_.empty()) {
      parallel_for(tasks, task);
    } else {  // which tasks may share
      for (std::int64_t n = 0; n < tasks; ++n) task(n);
    }
    for (const Real x : grad_bias_) out_.grad_bias.push_back(round_to_bias(x));
    out_.grad_sink.assign(grad_sink_.begin(), grad_sink_.end());
    return std::move(out_);
  }

 private:
  void run_key_head(std::int64_t b, std::int64_t h_kv) {
    Sequence sequence{b, query_rows(problem_, inputs_, b), key_rows(problem_, inputs_, b), {}};
    sequence.visibility = shared::cf_visibility_of(problem_.visibility, problem_.sequences.top_left,
                                                   static_cast<int>(sequence.queries.count),
                                                   static_cast<int>(sequence.keys.count));
    KeyHead keys(problem_, sequence.keys.count);
    const HeadView k_view(problem_.tensor(TensorId::k), sequence.keys, h_kv);
    const HeadView v_view(problem_.tensor(TensorId::v), sequence.keys, h_kv);
    read_both_ways(inputs_.k, k_view, &keys.k, &keys.k_transposed);
    read_both_ways(inputs_.v, v_view, &keys.v, &keys.v_transposed);

    Query query(problem_, sequence.keys.count);
    query.b = b;
    for (query.h = h_kv * problem_.group(); query.h < (h_kv + 1) * problem_.group(); ++query.h) {
      const HeadView q_view(problem_.tensor(TensorId::q), sequence.queries, query.h);
      const HeadView o_view(problem_.tensor(TensorId::o), sequence.queries, query.h);
      for (query.i = 0; query.i < sequence.queries.count; ++query.i) {
        read(inputs_.q, q_view, query.i, query.q.data());
        forward(sequence, keys, query);
        write(query.o.data(), o_view, query.i, &out_.o);
        out_.lse[lse_at(sequence, query)] = query.lse;
        if (!problem_.backward) continue;
        read(inputs_.grad_o, o_view, query.i, query.grad_o.data());
        backward(keys, query);
        write(query.grad_q.data(), q_view, query.i, &out_.grad_q);
      }
    }
    if (!problem_.backward) return;
    for (std::int64_t j = 0; j < sequence.keys.count; ++j) {
      write(keys.grad_k[j], k_view, j, &out_.grad_k);
      write(keys.grad_v[j], v_view, j, &out_.grad_v);
    }
  }

  // S, P and O of one row, and what backward needs of them.
  void forward(const Sequence& sequence, const KeyHead& keys, Query& row) const {
    const auto i = static_cast<int>(row.i);
    const std::size_t count = row.raw.size();
    multiply(row.raw, row.q, keys.k_transposed);
    Real m = sink(row.h);
    for (std::size_t j = 0; j < count; ++j) {
      const auto key = static_cast<int>(j);
      const bool visible = shared::cf_visible(sequence.visibility, i, key) && unmasked(row, key);
      row.score[j] =
          visible ? score(row, key, row.raw[j], i + sequence.visibility.diagonal - key) : kNegInf;
      m = std::max(m, row.score[j]);
    }
    Real l = sink(row.h) != kNegInf ? std::exp(sink(row.h) - m) : Real(0);
    for (std::size_t j = 0; j < count; ++j) {
      row.p[j] = row.sees(j) ? std::exp(row.score[j] - m) : Real(0);
      l += row.p[j];
    }
    row.lse = l > 0 ? m + std::log(l) : kNegInf;

    row.o.assign(row.o.size(), Real(0));
    for (std::size_t j = 0; j < count; ++j) {
      if (!row.sees(j)) continue;  // not even 0 * v_j, which may be anything
      row.p[j] = round(row.p[j] / l);
      row.keep[j] = keep(row, j);
      add_scaled(row.o.data(), round(row.p[j] * row.keep[j]), keys.v[static_cast<std::int64_t>(j)],
                 problem_.d_v);
    }
    for (Real& x : row.o) x = round(x);
  }

  // The row's dQ, and its part of dK, dV and the gradients of bias and sink.
  void backward(KeyHead& keys, Query& row) {
    multiply(row.grad_p, row.grad_o, keys.v_transposed);
    Real row_dot = 0;  // D
    for (std::size_t c = 0; c < row.o.size(); ++c) row_dot += row.grad_o[c] * row.o[c];

    row.grad_q.assign(row.grad_q.size(), Real(0));
    for (std::size_t n = 0; n < row.raw.size(); ++n) {
      if (!row.sees(n)) continue;
      const auto j = static_cast<std::int64_t>(n);
      add_scaled(keys.grad_v[j], round(row.p[n] * row.keep[n]), row.grad_o.data(), problem_.d_v);
      const Real grad_score = round(row.p[n] * (row.keep[n] * round(row.grad_p[n]) - row_dot));
      if (problem_.bias.gradient)
        grad_bias_[score_at(problem_.bias.grad_strides, row, j)] += grad_score;
      const Real grad_raw = grad_score * shared::cf_score_gradient(problem_.score, row.raw[n]);
      add_scaled(row.grad_q.data(), grad_raw, keys.k[j], problem_.d);
      add_scaled(keys.grad_k[j], grad_raw, row.q.data(), problem_.d);
    }
    if (problem_.sink_gradient && sink(row.h) != kNegInf)
      grad_sink_[static_cast<std::size_t>(row.h)] -= std::exp(sink(row.h) - row.lse) * row_dot;
  }

  // Of a visible element; `distance` is how many keys the query stands after it.
  Real score(const Query& row, int j, Real raw, int distance) const {
    Real s = round(shared::cf_score_value(problem_.score, raw));
    if (problem_.bias.given) s += Real(inputs_.bias[score_at(problem_.bias.strides, row, j)]);
    if (problem_.has(shared::CF_ALIBI))
      s += shared::cf_alibi(Real(inputs_.alibi[static_cast<std::size_t>(row.h)]), distance);
    return round(s);
  }

  Real sink(std::int64_t h) const {
    return problem_.has(shared::CF_SINK) ? Real(inputs_.sink[static_cast<std::size_t>(h)])
                                         : kNegInf;
  }

  bool unmasked(const Query& row, int j) const {
    if (!problem_.mask.given) return true;
    const uint word = inputs_.mask[score_at(problem_.mask.strides, row, j / 32)];
    return (word >> (j % 32) & 1u) != 0;
  }

  static std::size_t score_at(const ScoreStrides& s, const Query& row, std::int64_t j) {
    return static_cast<std::size_t>(row.b * s.batch + row.h * s.head + row.i * s.seq_q +
                                    j * s.seq_k);
  }

  // Dropout's z.
  Real keep(const Query& row, std::size_t j) const {
    if (!problem_.has(shared::CF_DROPOUT)) return Real(1);
    const bool kept =
        shared::cf_keep(inputs_.dropout, static_cast<uint>(row.b * problem_.heads_q + row.h),
                        static_cast<uint>(row.i), static_cast<uint>(j));
    return kept ? Real(1) / (Real(1) - static_cast<Real>(problem_.dropout)) : Real(0);
  }

  Real round(Real x) const { return arithmetic_.round(x); }
  double round_to_bias(Real x) const {
    return Arithmetic::kExact ? static_cast<double>(x)
                              : round_to(problem_.bias.dtype, static_cast<float>(x));
  }

  std::size_t lse_at(const Sequence& sequence, const Query& row) const {
    const Tensor& t = problem_.tensor(TensorId::lse);
    const std::int64_t flat = sequence.queries.flat(row.i);
    return static_cast<std::size_t>(flat / t.seq * t.strides.batch + row.h * t.strides.head +
                                    flat % t.seq);
  }
  std::size_t elements(TensorId id) const {
    const Tensor& t = problem_.tensor(id);
    return static_cast<std::size_t>(t.batch * t.seq * t.heads * t.width);
  }
  std::size_t extent(OptionId id) const {
    return static_cast<std::size_t>(problem_.option_extent(id));
  }

  static void read(const std::vector<float>& tensor, const HeadView& head, std::int64_t row,
                   Real* to) {
    for (std::int64_t c = 0; c < head.width; ++c) to[c] = tensor[head.at(row, c)];
  }
  static void read_both_ways(const std::vector<float>& tensor, const HeadView& head,
                             Matrix<Real>* rows, Matrix<Real>* columns) {
    for (std::int64_t j = 0; j < head.rows.count; ++j) {
      read(tensor, head, j, (*rows)[j]);
      for (std::int64_t c = 0; c < head.width; ++c) (*columns)[c][j] = (*rows)[j][c];
    }
  }
  void write(const Real* from, const HeadView& head, std::int64_t row,
             std::vector<double>* tensor) const {
    for (std::int64_t c = 0; c < head.width; ++c) (*tensor)[head.at(row, c)] = round(from[c]);
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Arithmetic arithmetic_;
  Outputs out_;
  std::vector<Real> grad_bias_, grad_sink_;
};

}  // namespace

SideRows query_rows(const Problem& p, const Inputs& inputs, std::int64_t b) {
  return side_rows(p.sequences.q, inputs.rows_q, p.seq_q, p.sequences.total_q, b);
}

SideRows key_rows(const Problem& p, const Inputs& inputs, std::int64_t b) {
  SideRows rows = side_rows(p.sequences.k, inputs.rows_k, p.seq_k, p.sequences.total_k, b);
  if (p.pages.size > 0) {
    rows.first = 0;
    rows.pages = inputs.page_table.data() + b * p.pages.of_sequence;
    rows.page_size = p.pages.size;
  }
  return rows;
}

Outputs exact_attention(const Problem& problem, const Inputs& inputs) {
  return Attention<Exact>(problem, inputs, {}).run();
}

Outputs plain_attention(const Problem& problem, const Inputs& inputs) {
  return Attention<Plain>(problem, inputs, {problem.dtype}).run();
}

}  // namespace crossflash::reference
