// SPDX-License-Identifier: MIT
// Each score modifier's derivative against central differences of its value, in double, for every
// combination of features; and the float text against the double text.
#include "common/shared/score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace crossflash::shared {
namespace {

constexpr uint kAllFeatures = CF_DROPOUT | CF_SOFTCAP | CF_BIAS | CF_ALIBI | CF_SINK | CF_MASK;

void for_each_score(const auto& check) {
  for (uint features = 0; features <= kAllFeatures; ++features)
    for (float scale : {-2.0f, 0.0f, 0.125f, 0.35355338f, 1.0f})
      for (float softcap : {0.5f, 30.0f}) {
        const cf_score score{scale, 1.25f, features, softcap};
        for (double raw = -40; raw <= 40; raw += 0.37) check(score, raw);
      }
}

TEST(SharedScore, TheGradientIsTheDerivativeOfTheValue) {
  for_each_score([](const cf_score& score, double raw) {
    const double h = 1e-4;
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

TEST(SharedScore, SoftcapIsACap) {
  const cf_score score{0.25f, 1, CF_SOFTCAP, 5};
  EXPECT_NEAR(cf_score_value(score, 10.0), 5 * std::tanh(0.5), 1e-15);
  for (const float raw : {1e3f, 1e20f, 3e38f}) {
    EXPECT_EQ(cf_score_value(score, raw), 5.0f);
    EXPECT_EQ(cf_score_value(score, -raw), -5.0f);
    EXPECT_EQ(cf_score_gradient(score, raw), 0.0f);
  }
}

TEST(SharedScore, AlibiIsLinearInTheDistance) {
  EXPECT_EQ(cf_alibi(0.5f, 6), -3.0f);
  EXPECT_EQ(cf_alibi(0.5f, -6), -3.0f);
  EXPECT_EQ(cf_alibi(0.5, 0), 0.0);
}

// The text that shaders have (lang.h), compiled here: within f32's rounding of the true tanh.
namespace glsl {
using std::abs;
using std::exp2;
using std::min;
float min(float a, double b) { return std::min(a, static_cast<float>(b)); }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#include "glsl_tanh.inc"
#pragma GCC diagnostic pop
}  // namespace glsl

TEST(SharedScore, TheShadersTanhIsATanh) {
  for (float x = 0x1p-126f; x < 0x1p127f; x *= 1.0009f) {
    const double expected = std::tanh(double{x});
    ASSERT_NEAR(glsl::cf_tanh(x), expected, 3e-7 * expected) << x;
    ASSERT_EQ(glsl::cf_tanh(-x), -glsl::cf_tanh(x));
  }
  EXPECT_EQ(glsl::cf_tanh(0.0f), 0.0f);
}

}  // namespace
}  // namespace crossflash::shared
