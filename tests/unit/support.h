// SPDX-License-Identifier: MIT
// support.h: small problems, inputs for them, and the distance between two results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "common/half.h"
#include "common/problem.h"
#include "common/reference/attention.h"

namespace crossflash::testing {

// Forward and backward in f32 on contiguous tensors; the rest as crossflash_problem_init leaves it.
inline crossflash_problem problem_of(std::int64_t batch, std::int64_t seq_q, std::int64_t seq_k,
                                     std::int64_t heads_q, std::int64_t heads_kv, std::int64_t d,
                                     std::int64_t d_v) {
  crossflash_problem p;
  crossflash_problem_init(&p);
  p.passes = CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD;
  p.batch = batch;
  p.seq_q = seq_q;
  p.seq_k = seq_k;
  p.heads_q = heads_q;
  p.heads_kv = heads_kv;
  p.d = d;
  p.d_v = d_v;
  return p;
}

inline Problem checked(const crossflash_problem& in) {
  Problem out{};
  const Status status = check_problem(in, &out);
  EXPECT_TRUE(status.ok()) << status.text();
  return out;
}

inline std::size_t elements(const Problem& p, TensorId id) {
  const Tensor& t = p.tensor(id);
  return static_cast<std::size_t>(t.batch * t.seq * t.heads * t.width);
}

// Normal, rounded to 1/256: exact in f32 and f16, as is such a number plus or minus 1/256.
inline reference::Inputs random_inputs(const Problem& p, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const auto tensor = [&](TensorId id) {
    std::vector<float> values(elements(p, id));
    for (float& x : values)
      x = round_to(p.dtype, static_cast<float>(std::round(normal(random) * 256) / 256));
    return values;
  };
  reference::Inputs in;
  in.q = tensor(TensorId::q);
  in.k = tensor(TensorId::k);
  in.v = tensor(TensorId::v);
  in.grad_o = tensor(TensorId::o);
  const Status status = check_random_state(p, 0x123456789abcdefu, 5, &in.dropout);
  EXPECT_TRUE(status.ok()) << status.text();
  return in;
}

// max|a - b|, where equal infinities agree; infinite if anything else is not finite.
inline double max_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    if (a[n] == b[n]) continue;
    const double error = std::abs(a[n] - b[n]);
    if (!std::isfinite(error)) return INFINITY;
    worst = std::max(worst, error);
  }
  return worst;
}

// Over every output.
inline double worst(const reference::Outputs& a, const reference::Outputs& b) {
  return std::max({max_error(a.o, b.o), max_error(a.lse, b.lse), max_error(a.grad_q, b.grad_q),
                   max_error(a.grad_k, b.grad_k), max_error(a.grad_v, b.grad_v),
                   max_error(a.grad_bias, b.grad_bias), max_error(a.grad_sink, b.grad_sink)});
}

}  // namespace crossflash::testing
