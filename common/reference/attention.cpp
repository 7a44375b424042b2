// SPDX-License-Identifier: MIT
// attention.cpp: the contract, row by row. One text for both references, since they differ only in
// the numbers they compute with: `Real` and the rounding of what an unfused computation would
// store. A task is one key head with its group of query heads, so that no two tasks share a sum; it
// holds O(seq) numbers: the head's K and V, and one row of everything that is seq_q x seq_k.
#include "common/reference/attention.h"

#include <cmath>
#include <limits>

#include "common/half.h"
#include "common/parallel.h"
#include "common/shared/dropout.h"
#include "common/shared/mask.h"
#include "common/shared/score.h"

namespace crossflash::reference {
namespace {

using shared::uint;

struct Exact {
  using Real = double;
  double round(double x) const { return x; }
};

struct Plain {
  using Real = float;
  crossflash_dtype dtype;
  float round(float x) const { return round_to(dtype, x); }
};

// One head of a contiguous [batch, seq, heads, width] tensor.
struct HeadView {
  std::int64_t first, row_stride, seq, width;

  HeadView(const Tensor& t, std::int64_t b, std::int64_t h)
      : first((b * t.seq * t.heads + h) * t.width),
        row_stride(t.heads * t.width),
        seq(t.seq),
        width(t.width) {}
  std::size_t at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(first + row * row_stride + column);
  }
};

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

  // K and V of one key head, both ways round, and the sums of their gradients.
  struct KeyHead {
    Matrix<Real> k, k_transposed, v, v_transposed, grad_k, grad_v;

    explicit KeyHead(const Problem& p)
        : k(p.seq_k, p.d),
          k_transposed(p.d, p.seq_k),
          v(p.seq_k, p.d_v),
          v_transposed(p.d_v, p.seq_k),
          grad_k(p.seq_k, p.d),
          grad_v(p.seq_k, p.d_v) {}
  };

  // What one query has: its own vectors, and a number for each key.
  struct Query {
    std::int64_t flat_head, i;
    Row q, o, grad_o, grad_q;         // (d) or (d_v)
    Row raw, score, p, keep, grad_p;  // (seq_k); keep is dropout's z, score is -inf if unseen
    Real lse = 0;

    explicit Query(const Problem& problem)
        : q(size(problem.d)),
          o(size(problem.d_v)),
          grad_o(size(problem.d_v)),
          grad_q(size(problem.d)),
          raw(size(problem.seq_k)),
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
    out_.lse.resize(elements(TensorId::lse));
    if (problem_.backward) {
      out_.grad_q.resize(elements(TensorId::q));
      out_.grad_k.resize(elements(TensorId::k));
      out_.grad_v.resize(elements(TensorId::v));
    }
    parallel_for(problem_.batch * problem_.heads_kv, [this](std::int64_t n) {
      run_key_head(n / problem_.heads_kv, n % problem_.heads_kv);
    });
    return std::move(out_);
  }

 private:
  void run_key_head(std::int64_t b, std::int64_t h_kv) {
    KeyHead keys(problem_);
    const HeadView k_view = view(TensorId::k, b, h_kv);
    const HeadView v_view = view(TensorId::v, b, h_kv);
    read_both_ways(inputs_.k, k_view, &keys.k, &keys.k_transposed);
    read_both_ways(inputs_.v, v_view, &keys.v, &keys.v_transposed);

    Query query(problem_);
    for (std::int64_t h = h_kv * problem_.group(); h < (h_kv + 1) * problem_.group(); ++h) {
      const HeadView q_view = view(TensorId::q, b, h);
      const HeadView o_view = view(TensorId::o, b, h);
      query.flat_head = b * problem_.heads_q + h;
      for (query.i = 0; query.i < problem_.seq_q; ++query.i) {
        read(inputs_.q, q_view, query.i, query.q.data());
        forward(keys, query);
        write(query.o.data(), o_view, query.i, &out_.o);
        out_.lse[static_cast<std::size_t>(query.flat_head * problem_.seq_q + query.i)] = query.lse;
        if (!problem_.backward) continue;
        read(inputs_.grad_o, o_view, query.i, query.grad_o.data());
        backward(keys, query);
        write(query.grad_q.data(), q_view, query.i, &out_.grad_q);
      }
    }
    if (!problem_.backward) return;
    for (std::int64_t j = 0; j < problem_.seq_k; ++j) {
      write(keys.grad_k[j], k_view, j, &out_.grad_k);
      write(keys.grad_v[j], v_view, j, &out_.grad_v);
    }
  }

  // S, P and O of one row, and what backward needs of them.
  void forward(const KeyHead& keys, Query& row) const {
    const auto i = static_cast<int>(row.i);
    const std::size_t seq_k = row.raw.size();
    multiply(row.raw, row.q, keys.k_transposed);
    Real m = kNegInf;
    for (std::size_t j = 0; j < seq_k; ++j) {
      const bool visible = shared::cf_visible(problem_.visibility, i, static_cast<int>(j));
      row.score[j] = visible ? round(shared::cf_score_value(problem_.score, row.raw[j])) : kNegInf;
      m = std::max(m, row.score[j]);
    }
    Real l = 0;
    for (std::size_t j = 0; j < seq_k; ++j) {
      row.p[j] = row.sees(j) ? std::exp(row.score[j] - m) : Real(0);
      l += row.p[j];
    }
    row.lse = l > 0 ? m + std::log(l) : kNegInf;

    row.o.assign(row.o.size(), Real(0));
    for (std::size_t j = 0; j < seq_k; ++j) {
      if (!row.sees(j)) continue;  // not even 0 * v_j, which may be anything
      row.p[j] = round(row.p[j] / l);
      row.keep[j] = keep(row, j);
      add_scaled(row.o.data(), round(row.p[j] * row.keep[j]), keys.v[static_cast<std::int64_t>(j)],
                 problem_.d_v);
    }
    for (Real& x : row.o) x = round(x);
  }

  // The row's dQ, and its part of dK and dV.
  void backward(KeyHead& keys, Query& row) const {
    multiply(row.grad_p, row.grad_o, keys.v_transposed);
    Real row_dot = 0;  // D
    for (std::size_t c = 0; c < row.o.size(); ++c) row_dot += row.grad_o[c] * row.o[c];

    row.grad_q.assign(row.grad_q.size(), Real(0));
    for (std::size_t n = 0; n < row.raw.size(); ++n) {
      if (!row.sees(n)) continue;
      const auto j = static_cast<std::int64_t>(n);
      add_scaled(keys.grad_v[j], round(row.p[n] * row.keep[n]), row.grad_o.data(), problem_.d_v);
      const Real grad_score = round(row.p[n] * (row.keep[n] * round(row.grad_p[n]) - row_dot));
      const Real grad_raw = grad_score * shared::cf_score_gradient(problem_.score, row.raw[n]);
      add_scaled(row.grad_q.data(), grad_raw, keys.k[j], problem_.d);
      add_scaled(keys.grad_k[j], grad_raw, row.q.data(), problem_.d);
    }
  }

  // Dropout's z.
  Real keep(const Query& row, std::size_t j) const {
    if ((problem_.score.features & shared::CF_DROPOUT) == 0) return Real(1);
    const bool kept = shared::cf_keep(inputs_.dropout, static_cast<uint>(row.flat_head),
                                      static_cast<uint>(row.i), static_cast<uint>(j));
    return kept ? Real(1) / (Real(1) - static_cast<Real>(problem_.dropout)) : Real(0);
  }

  Real round(Real x) const { return arithmetic_.round(x); }

  HeadView view(TensorId id, std::int64_t b, std::int64_t h) const {
    return {problem_.tensor(id), b, h};
  }
  std::size_t elements(TensorId id) const {
    const Tensor& t = problem_.tensor(id);
    return static_cast<std::size_t>(t.batch * t.seq * t.heads * t.width);
  }

  static void read(const std::vector<float>& tensor, const HeadView& head, std::int64_t row,
                   Real* to) {
    for (std::int64_t c = 0; c < head.width; ++c) to[c] = tensor[head.at(row, c)];
  }
  static void read_both_ways(const std::vector<float>& tensor, const HeadView& head,
                             Matrix<Real>* rows, Matrix<Real>* columns) {
    for (std::int64_t j = 0; j < head.seq; ++j) {
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
};

}  // namespace

Outputs exact_attention(const Problem& problem, const Inputs& inputs) {
  return Attention<Exact>(problem, inputs, {}).run();
}

Outputs plain_attention(const Problem& problem, const Inputs& inputs) {
  return Attention<Plain>(problem, inputs, {problem.dtype}).run();
}

}  // namespace crossflash::reference
