// SPDX-License-Identifier: MIT
// Each score modifier's derivative against central differences of its value, in double, for every
// combination of features; and the float text against the double text.
#include "common/shared/score.h"

#include <gtest/gtest.h>

namespace crossflash::shared {
namespace {

constexpr uint kAllFeatures = CF_DROPOUT;

void for_each_score(const auto& check) {
  for (uint features = 0; features <= kAllFeatures; ++features)
    for (float scale : {-2.0f, 0.0f, 0.125f, 0.35355338f, 1.0f}) {
      const cf_score score{scale, 1.25f, features, 0};
      for (double raw = -40; raw <= 40; raw += 0.37) check(score, raw);
    }
}

TEST(SharedScore, TheGradientIsTheDerivativeOfTheValue) {
  for_each_score([](const cf_score& score, double raw) {
    const double h = 1e-3;
    const auto difference = [&](double step) {
      return (cf_score_value(score, raw + step) - cf_score_value(score, raw - step)) / (2 * step);
    };
    const double expected = (4 * difference(h) - difference(2 * h)) / 3;
    ASSERT_NEAR(cf_score_gradient(score, raw), expected, 1e-9)
        << "raw " << raw << " scale " << score.scale << " features " << score.features;
  });
}

TEST(SharedScore, FloatAndDoubleAgree) {
  for_each_score([](const cf_score& score, double raw) {
    const auto narrow = static_cast<float>(raw);
    const double value = cf_score_value(score, static_cast<double>(narrow));
    ASSERT_NEAR(cf_score_value(score, narrow), value, 2e-7 * (1 + std::abs(value)));
    const double gradient = cf_score_gradient(score, static_cast<double>(narrow));
    ASSERT_NEAR(cf_score_gradient(score, narrow), gradient, 2e-7 * (1 + std::abs(gradient)));
  });
}

TEST(SharedScore, WithoutFeaturesTheScoreIsScaled) {
  const cf_score score{0.25f, 1, 0, 0};
  EXPECT_EQ(cf_score_value(score, 10.0), 2.5);
  EXPECT_EQ(cf_score_value(score, 10.0f), 2.5f);
}

}  // namespace
}  // namespace crossflash::shared
