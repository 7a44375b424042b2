// SPDX-License-Identifier: MIT
// value_scenarios.cpp: problems whose answer is known without the reference: sums done by hand,
// the exported dropout mask, rows that see nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/half.h"
#include "tests/conformance/scenarios.h"
#include "tests/conformance/subject.h"

namespace crossflash::conformance {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Scores of 11585 and 11574 lie past f16's precision, where neighbours are 8 apart: rounded to it
// they are as good as equal or far apart. The difference is 11.3137: o = tanh(5.657) = 0.999976.
void scores_are_not_halves(const Device& device) {
  for (const char* type : {"f32", "f16"}) {
    Execution e = execution_of(case_of(fmt::format("seq=5x2 d=128 passes=forward type={}", type)));
    std::fill(e.inputs.q.begin(), e.inputs.q.end(), 32.0f);
    const auto second = e.inputs.k.begin() + 128;
    std::fill(e.inputs.k.begin(), second, 32.0f);
    std::fill(second, e.inputs.k.end(), 31.96875f);
    std::fill(e.inputs.v.begin(), e.inputs.v.begin() + 128, 1.0f);
    std::fill(e.inputs.v.begin() + 128, e.inputs.v.end(), -1.0f);
    for (const float o : run(device, e).o) ASSERT_NEAR(o, 0.99998, 1e-3) << type;
  }
}

// What was asked for in f32 is computed in f32, also on a device with f16 arithmetic, and says so.
void f32_is_f32(const Device& device) {
  const Case c = case_of("seq=64 d=64 passes=forward type=f32");
  const Results results = run(device, c);
  EXPECT_NE(results.describe.find("f32"), std::string::npos) << results.describe;
  Execution one_key = execution_of(case_of("seq=3x1 d=64 passes=forward type=f32"));
  const float value = 1.0f + 0x1p-20f;  // not an f16, not a bf16
  std::fill(one_key.inputs.v.begin(), one_key.inputs.v.end(), value);
  for (const float o : run(device, one_key).o) ASSERT_NEAR(o, value, 0x1p-22);
}

// dV against the sum over the mask that the API exports, done here in double; 25 runs with equal
// bits, p as awkward as it gets.
void dropout_follows_its_mask(const Device& device) {
  const Case c = case_of("batch=2 seq=33x41 heads=4/2 d=16 dropout=0.48 seed=77 offset=3");
  const Execution e = execution_of(c);
  const Results results = run(device, e);
  const crossflash_problem& p = c.problem;
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(p.batch * p.heads_q * p.seq_q * p.seq_k));
  check(crossflash_dropout_mask(&e.problem, e.seed, e.offset, mask.data()));

  std::vector<double> grad_v(results.grad_v.size());
  const auto row = [&](std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t seq,
                       std::int64_t heads) {
    return static_cast<std::size_t>(((b * seq + s) * heads + h) * p.d);
  };
  const double scale = 1.0 / std::sqrt(static_cast<double>(p.d));
  const double kept_scale = 1.0 / (1.0 - static_cast<double>(p.dropout));
  std::vector<double> weight(static_cast<std::size_t>(p.seq_k));
  std::size_t bit = 0, kept = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads_q; ++h)
      for (std::int64_t i = 0; i < p.seq_q; ++i) {
        const std::size_t q = row(b, i, h, p.seq_q, p.heads_q);
        double sum = 0;
        for (std::int64_t j = 0; j < p.seq_k; ++j) {
          const std::size_t k = row(b, j, h / 2, p.seq_k, p.heads_kv);
          double dot = 0;
          for (std::size_t x = 0; x < 16; ++x)
            dot += static_cast<double>(e.inputs.q[q + x]) * static_cast<double>(e.inputs.k[k + x]);
          sum += weight[static_cast<std::size_t>(j)] = std::exp(scale * dot);
        }
        for (std::int64_t j = 0; j < p.seq_k; ++j, ++bit) {
          if (mask[bit] == 0) continue;
          ++kept;
          const std::size_t v = row(b, j, h / 2, p.seq_k, p.heads_kv);
          for (std::size_t x = 0; x < 16; ++x)
            grad_v[v + x] += weight[static_cast<std::size_t>(j)] / sum * kept_scale *
                             static_cast<double>(e.inputs.grad_o[q + x]);
        }
      }
  for (std::size_t n = 0; n < grad_v.size(); ++n)
    ASSERT_NEAR(results.grad_v[n], grad_v[n], 1e-5) << "element " << n;
  // Five deviations of a binomial count.
  const auto trials = static_cast<double>(mask.size());
  EXPECT_NEAR(static_cast<double>(kept), 0.52 * trials, 5 * std::sqrt(0.52 * 0.48 * trials));
  for (int n = 1; n < 25; ++n) ASSERT_EQ(first_difference(results, run(device, e)), "");
}

// Queries 0 to 3 of 9 stand before all of 5 keys: o = 0, lse = -inf, no gradient to them nor, were
// their dO ever so large, from them.
void blind_rows_give_nothing(const Device& device) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    Execution e = execution_of(
        case_of(fmt::format("seq=9x5 heads=2/1 d=24 causal=bottom-right type={}", type)));
    const Results results = run(device, e);
    constexpr std::size_t kBlind = 4, kRow = 2 * 24;
    for (std::size_t n = 0; n < kBlind * kRow; ++n) {
      ASSERT_EQ(results.o[n], 0.0f) << "o, element " << n << ", " << type;
      ASSERT_EQ(results.grad_q[n], 0.0f) << "grad_q, element " << n << ", " << type;
      e.inputs.grad_o[n] = 30000.0f;
    }
    for (std::size_t h = 0; h < 2; ++h)
      for (std::size_t i = 0; i < 9; ++i)
        ASSERT_EQ(results.lse[h * 9 + i] == -kInf, i < kBlind) << "query " << i << ", " << type;
    EXPECT_EQ(first_difference(results, run(device, e)), "") << type;
  }
}

// Keys that no query sees get no gradient, not even -0 or a rounding of it.
void unseen_keys_get_nothing(const Device& device) {
  const Results results = run(device, case_of("seq=5x9 heads=2 d=24 causal=top-left"));
  constexpr std::size_t kRow = 2 * 24;
  for (std::size_t n = 5 * kRow; n < 9 * kRow; ++n) {
    ASSERT_EQ(results.grad_k[n], 0.0f) << "element " << n;
    ASSERT_EQ(results.grad_v[n], 0.0f) << "element " << n;
  }
}

// All scores equal: o is the mean of v, lse the logarithm of the number of keys.
void equal_scores_give_the_mean(const Device& device) {
  Execution e = execution_of(case_of("seq=3x128 heads=1 d=8 passes=forward"));
  std::fill(e.inputs.q.begin(), e.inputs.q.end(), 0.0f);
  for (std::size_t n = 0; n < e.inputs.v.size(); ++n)
    e.inputs.v[n] = static_cast<float>(n / 8);  // the key's number
  const Results results = run(device, e);
  for (const float o : results.o) ASSERT_NEAR(o, 63.5, 63.5 * 0x1p-21);
  for (const float lse : results.lse) ASSERT_NEAR(lse, std::log(128.0), 0x1p-20);
}

constexpr Scenario kScenarios[] = {
    {"scores_are_not_halves", scores_are_not_halves},
    {"f32_is_f32", f32_is_f32},
    {"dropout_follows_its_mask", dropout_follows_its_mask},
    {"blind_rows_give_nothing", blind_rows_give_nothing},
    {"unseen_keys_get_nothing", unseen_keys_get_nothing},
    {"equal_scores_give_the_mean", equal_scores_give_the_mean},
};

}  // namespace

std::span<const Scenario> value_scenarios() { return kScenarios; }

}  // namespace crossflash::conformance
