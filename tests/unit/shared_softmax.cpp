// SPDX-License-Identifier: MIT
// The online softmax: states of any split of the scores, combined in any order, against a softmax
// in double; and the empty state, which must be neutral without ever making a NaN.
#include "common/shared/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace crossflash::shared {
namespace {

// (m, l, o) for one output column.
struct State {
  float m = cf_neg_inf();
  float l = 0;
  float o = 0;
};

State one(float s, float v) { return {s, 1, v}; }

State combine(const State& a, const State& b) {
  const float m = cf_combine_max(a.m, b.m);
  const float ra = cf_rescale(a.m, m);
  const float rb = cf_rescale(b.m, m);
  return {m, a.l * ra + b.l * rb, a.o * ra + b.o * rb};
}

// A binary tree of combinations, cut at random.
State reduce(const std::vector<State>& states, std::size_t begin, std::size_t end,
             std::mt19937& random) {
  if (begin == end) return {};
  if (end - begin == 1) return states[begin];
  const std::size_t cut = begin + random() % (end - begin + 1);
  if (cut == begin || cut == end)  // an empty side now and then
    return combine(reduce(states, begin, begin, random),
                   combine(states[begin], reduce(states, begin + 1, end, random)));
  return combine(reduce(states, begin, cut, random), reduce(states, cut, end, random));
}

TEST(SharedSoftmax, AnySplitInAnyOrderGivesTheSoftmax) {
  std::mt19937 random(1);
  for (double spread : {0.01, 1.0, 30.0, 1000.0}) {
    std::normal_distribution<double> normal(0, spread);
    std::vector<State> states;
    std::vector<double> s, v;
    for (int n = 0; n < 97; ++n) {
      states.push_back(one(static_cast<float>(normal(random)), static_cast<float>(n % 7) - 3));
      s.push_back(states.back().m);
      v.push_back(states.back().o);
    }
    const double m = *std::max_element(s.begin(), s.end());
    double l = 0, o = 0;
    for (std::size_t n = 0; n < s.size(); ++n) {
      l += std::exp(s[n] - m);
      o += std::exp(s[n] - m) * v[n];
    }
    for (int trial = 0; trial < 50; ++trial) {
      std::shuffle(states.begin(), states.end(), random);
      const State all = reduce(states, 0, states.size(), random);
      EXPECT_EQ(all.m, static_cast<float>(m));
      EXPECT_NEAR(cf_lse(all.m, all.l), m + std::log(l), 1e-6 * (std::abs(m) + 1)) << spread;
      EXPECT_NEAR(all.o * cf_inverse_sum(all.l), o / l, 2e-5) << spread;
    }
  }
}

TEST(SharedSoftmax, TheEmptyStateIsNeutralAndGivesZero) {
  const State empty;
  const State both = combine(empty, empty);
  EXPECT_TRUE(cf_is_neg_inf(both.m));
  EXPECT_EQ(both.l, 0);
  EXPECT_EQ(both.o, 0);
  EXPECT_EQ(cf_lse(both.m, both.l), -INFINITY);
  EXPECT_EQ(both.o * cf_inverse_sum(both.l), 0);
  for (float s : {-3e38f, -1.0f, 0.0f, 88.0f, 3e38f}) {
    const State some = one(s, 2);
    for (const State& sum : {combine(some, empty), combine(empty, some)}) {
      EXPECT_EQ(sum.m, some.m);
      EXPECT_EQ(sum.l, some.l);
      EXPECT_EQ(sum.o, some.o);
    }
  }
}

TEST(SharedSoftmax, WeightsAreExponentials) {
  for (float m : {-1000.0f, 0.0f, 12.5f, 1000.0f})
    for (float below : {0.0f, 0.5f, 1.0f, 20.0f, 80.0f}) {
      const double exact = std::exp(-static_cast<double>(below));
      EXPECT_NEAR(cf_weight(m - below, m) / exact, 1, 1e-5) << m << " " << below;
    }
  EXPECT_EQ(cf_weight(-200.0f, 0.0f), 0);
  EXPECT_EQ(cf_weight(cf_neg_inf(), 0.0f), 0);
  EXPECT_EQ(cf_weight(cf_neg_inf(), cf_neg_inf()), 0);
  EXPECT_EQ(cf_probability(1.0f, cf_neg_inf()), 0);
  EXPECT_EQ(cf_probability(cf_neg_inf(), 1.0f), 0);
  EXPECT_EQ(cf_probability(1.5f, 1.5f), 1);
}

TEST(SharedSoftmax, MendsARowByNoMoreThanItsLseIsUncertain) {
  const float ulp = 0x1p-11f;  // of an lse between 4096 and 8192
  for (float lse : {5000.0f, -5000.0f}) {
    EXPECT_EQ(cf_mend_row(1.0f, lse), 1.0f);
    EXPECT_FLOAT_EQ(cf_mend_row(1 + ulp / 2, lse), 1 / (1 + ulp / 2));
    EXPECT_FLOAT_EQ(cf_mend_row(1 - ulp / 2, lse), 1 / (1 - ulp / 2));
    EXPECT_EQ(cf_mend_row(1 - 4 * ulp, lse), 1.0f) << "some keys are elsewhere";
  }
  EXPECT_EQ(cf_mend_row(0.9999f, 3.0f), 1.0f);
  EXPECT_EQ(cf_mend_row(0.3f, 0.0f), 1.0f);
  EXPECT_EQ(cf_mend_row(0.0f, 1e9f), 1.0f);
  EXPECT_EQ(cf_mend_row(0.0f, cf_neg_inf()), 1.0f);
}

}  // namespace
}  // namespace crossflash::shared
