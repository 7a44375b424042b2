// SPDX-License-Identifier: MIT
// unfused_cpu.cpp: unfused attention on the CPU in f32. Every step is a pass over the whole score
// matrix, shared among the cores by blocks of rows:
//
//   S = scale Q K^T   P = softmax(S)   O = P V
//   dV = P^T dO       dP = dO V^T      dS = scale P (dP - D)   dQ = dS K   dK = dS^T Q
//
// P overwrites S, dS overwrites dP; both are [batch, heads_q, seq_q, seq_k].
#include <algorithm>
#include <cmath>

#include "bench/gemm.h"
#include "bench/unfused.h"
#include "common/parallel.h"
#include "common/shared/mask.h"

namespace crossflash::bench {
namespace {

constexpr int kRows = 64;                            // of a task
constexpr std::uint64_t kMaxWorkspace = 2ull << 30;  // beyond that storing S is out of the question

class UnfusedCpu final : public Unfused {
 public:
  UnfusedCpu(const Problem& problem, const reference::Inputs& inputs)
      : p_(problem),
        q_(inputs.q),
        k_(inputs.k),
        v_(inputs.v),
        grad_o_(inputs.grad_o),
        o_(elements(TensorId::o)),
        s_(scores()) {
    if (!p_.backward) return;
    grad_q_.resize(q_.size());
    grad_k_.resize(k_.size());
    grad_v_.resize(v_.size());
    grad_s_.resize(scores());
  }

  void forward() override {
    for_query_rows([&](std::int64_t head, int i, int rows) {
      gemm(query(q_, head, i, p_.d), key(k_, head, 0, p_.d).transposed(), score(s_, head, i),
           p_.seq_k, rows, seq_k(), static_cast<int>(p_.d), false);
    });
    for_query_rows([&](std::int64_t head, int i, int rows) {
      for (int r = i; r < i + rows; ++r) softmax(score(s_, head, r), r);
    });
    for_query_rows([&](std::int64_t head, int i, int rows) {
      multiply_by_keys(s_, v_, o_, head, i, rows, p_.d_v);
    });
  }

  void backward() override {
    for_key_rows([&](std::int64_t kv_head, int j, int rows) {
      multiply_by_queries(s_, grad_o_, grad_v_, kv_head, j, rows, p_.d_v);
    });
    for_query_rows([&](std::int64_t head, int i, int rows) {
      gemm(query(grad_o_, head, i, p_.d_v), key(v_, head, 0, p_.d_v).transposed(),
           score(grad_s_, head, i), p_.seq_k, rows, seq_k(), static_cast<int>(p_.d_v), false);
    });
    for_query_rows([&](std::int64_t head, int i, int rows) {
      for (int r = i; r < i + rows; ++r) softmax_gradient(head, r);
    });
    for_query_rows([&](std::int64_t head, int i, int rows) {
      multiply_by_keys(grad_s_, k_, grad_q_, head, i, rows, p_.d);
    });
    for_key_rows([&](std::int64_t kv_head, int j, int rows) {
      multiply_by_queries(grad_s_, q_, grad_k_, kv_head, j, rows, p_.d);
    });
  }

  std::uint64_t workspace_bytes(std::uint32_t pass) const override {
    return (s_.size() + (pass == CROSSFLASH_BACKWARD ? grad_s_.size() : 0)) * sizeof(float);
  }

  std::vector<float> output(TensorId id) const override {
    return id == TensorId::o        ? o_
           : id == TensorId::grad_q ? grad_q_
           : id == TensorId::grad_k ? grad_k_
                                    : grad_v_;
  }

 private:
  int seq_k() const { return static_cast<int>(p_.seq_k); }
  std::size_t scores() const {
    return static_cast<std::size_t>(p_.batch * p_.heads_q * p_.seq_q * p_.seq_k);
  }
  std::size_t elements(TensorId id) const {
    const Tensor& t = p_.tensor(id);
    return static_cast<std::size_t>(t.batch * t.seq * t.heads * t.width);
  }

  // Rows of one head of a contiguous [batch, seq, heads, width], from row i on. `head` counts
  // through batch and query heads.
  std::ptrdiff_t query_at(std::int64_t head, std::int64_t i, std::int64_t width) const {
    const std::int64_t b = head / p_.heads_q, h = head % p_.heads_q;
    return ((b * p_.seq_q + i) * p_.heads_q + h) * width;
  }
  std::ptrdiff_t key_at(std::int64_t head, std::int64_t j, std::int64_t width) const {
    const std::int64_t b = head / p_.heads_q, h = head % p_.heads_q / p_.group();
    return ((b * p_.seq_k + j) * p_.heads_kv + h) * width;
  }
  Matrix query(const std::vector<float>& x, std::int64_t head, int i, std::int64_t width) const {
    return {x.data() + query_at(head, i, width), p_.heads_q * width, 1};
  }
  Matrix key(const std::vector<float>& x, std::int64_t head, int j, std::int64_t width) const {
    return {x.data() + key_at(head, j, width), p_.heads_kv * width, 1};
  }
  float* score(std::vector<float>& x, std::int64_t head, std::int64_t i) const {
    return x.data() + (head * p_.seq_q + i) * p_.seq_k;
  }

  // out (rows of queries, width) = scores (rows, seq_k) x (seq_k, width)
  void multiply_by_keys(std::vector<float>& scores, const std::vector<float>& x,
                        std::vector<float>& out, std::int64_t head, int i, int rows,
                        std::int64_t width) const {
    gemm({score(scores, head, i), p_.seq_k, 1}, key(x, head, 0, width),
         out.data() + query_at(head, i, width), p_.heads_q * width, rows, static_cast<int>(width),
         seq_k(), false);
  }

  // out (rows of keys, width) = the sum over the group's heads of scores^T (rows, seq_q) x
  void multiply_by_queries(std::vector<float>& scores, const std::vector<float>& x,
                           std::vector<float>& out, std::int64_t kv_head, int j, int rows,
                           std::int64_t width) const {
    for (std::int64_t g = 0; g < p_.group(); ++g) {
      const std::int64_t head = kv_head * p_.group() + g;
      const Matrix s{score(scores, head, 0) + j, p_.seq_k, 1};
      gemm(s.transposed(), query(x, head, 0, width), out.data() + key_at(head, j, width),
           p_.heads_kv * width, rows, static_cast<int>(width), static_cast<int>(p_.seq_q), g > 0);
    }
  }

  // Row i of S becomes row i of P.
  void softmax(float* s, int i) const {
    const int begin = shared::cf_keys_begin(p_.visibility, i);
    const int end = std::max(begin, shared::cf_keys_end(p_.visibility, i + 1));
    std::fill(s, s + begin, 0.0f);
    std::fill(s + end, s + seq_k(), 0.0f);
    if (begin == end) return;
    const float scale = p_.score.scale;
    float m = scale * s[begin];
    for (int j = begin; j < end; ++j) m = std::max(m, s[j] = scale * s[j]);
    float l = 0;
    for (int j = begin; j < end; ++j) l += s[j] = std::exp(s[j] - m);
    for (int j = begin; j < end; ++j) s[j] /= l;
  }

  // Row i of dP becomes row i of dS.
  void softmax_gradient(std::int64_t head, int i) {
    const float* p = score(s_, head, i);
    float* grad = score(grad_s_, head, i);
    float row_dot = 0;  // D
    const float* o = query(o_, head, i, p_.d_v).data;
    const float* grad_o = query(grad_o_, head, i, p_.d_v).data;
    for (std::int64_t x = 0; x < p_.d_v; ++x) row_dot += o[x] * grad_o[x];
    for (int j = 0; j < seq_k(); ++j) grad[j] = p_.score.scale * p[j] * (grad[j] - row_dot);
  }

  template <typename Function>
  void for_query_rows(Function&& f) const {
    for_rows(p_.batch * p_.heads_q, p_.seq_q, f);
  }
  template <typename Function>
  void for_key_rows(Function&& f) const {
    for_rows(p_.batch * p_.heads_kv, p_.seq_k, f);
  }
  // f(head, first row, rows), all heads counted through.
  template <typename Function>
  static void for_rows(std::int64_t heads, std::int64_t seq, Function&& f) {
    const std::int64_t blocks = (seq + kRows - 1) / kRows;
    parallel_for(heads * blocks, [&](std::int64_t task) {
      const std::int64_t begin = task % blocks * kRows;
      f(task / blocks, static_cast<int>(begin),
        static_cast<int>(std::min<std::int64_t>(kRows, seq - begin)));
    });
  }

  const Problem& p_;
  const std::vector<float> q_, k_, v_, grad_o_;
  std::vector<float> o_, grad_q_, grad_k_, grad_v_;
  std::vector<float> s_, grad_s_;
};

}  // namespace

std::unique_ptr<Unfused> make_unfused_cpu(const Device& /*device*/, const Problem& problem,
                                          const reference::Inputs& inputs) {
  const double scores = problem.product_flops(1) / 2;
  const bool fits = scores * sizeof(float) * 2 <= static_cast<double>(kMaxWorkspace);
  if (problem.dropout > 0 || !fits) return nullptr;
  return std::make_unique<UnfusedCpu>(problem, inputs);
}

}  // namespace crossflash::bench
