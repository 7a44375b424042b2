// SPDX-License-Identifier: MIT
// f16 and bf16: every pattern both ways, and rounding against the definition: the nearer of two
// neighbours, and of two equally near ones the even.
#include "common/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace crossflash {
namespace {

struct Format {
  const char* name;
  int mantissa_bits, exponent_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);

  int exponent_bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  // The value of a pattern without sign, from IEEE 754's definition.
  double value(std::uint32_t pattern) const {
    const std::uint32_t mantissa = pattern & ((1u << mantissa_bits) - 1);
    const int exponent = static_cast<int>(pattern >> mantissa_bits);
    const double fraction = std::ldexp(mantissa, -mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - exponent_bias())
                         : std::ldexp(1 + fraction, exponent - exponent_bias());
  }
};

const Format kFormats[] = {{"f16", 10, 5, f16_to_f32, f32_to_f16},
                           {"bf16", 7, 8, bf16_to_f32, f32_to_bf16}};

TEST(Half, EveryPatternMakesTheRoundTrip) {
  for (const Format& f : kFormats)
    for (std::uint32_t n = 0; n < 65536; ++n) {
      const auto pattern = static_cast<std::uint16_t>(n);
      const std::uint32_t magnitude = n & 0x7fffu;
      const float wide = f.widen(pattern);
      ASSERT_EQ(std::signbit(wide), n >= 0x8000u) << f.name << " " << n;
      if (magnitude > f.infinity()) {
        ASSERT_TRUE(std::isnan(wide)) << f.name << " " << n;
        ASSERT_TRUE(std::isnan(f.widen(f.narrow(wide)))) << f.name << " " << n;
        continue;
      }
      if (magnitude == f.infinity())
        ASSERT_TRUE(std::isinf(wide)) << f.name << " " << n;
      else
        ASSERT_EQ(std::abs(static_cast<double>(wide)), f.value(magnitude)) << f.name << " " << n;
      ASSERT_EQ(f.narrow(wide), pattern) << f.name << " " << n;
    }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (const Format& f : kFormats)
    for (std::uint32_t low = 0; low < f.infinity(); ++low) {
      // The neighbour of the largest finite number is what would follow it; it rounds to infinity.
      const double tie_exact = (f.value(low) + f.value(low + 1)) / 2;
      const auto tie = static_cast<float>(tie_exact);
      ASSERT_EQ(static_cast<double>(tie), tie_exact);
      const std::uint32_t even = low % 2 == 0 ? low : low + 1;
      const std::uint32_t expected[] = {low, even, low + 1};
      const float inputs[] = {std::nextafter(tie, 0.0f), tie, std::nextafter(tie, INFINITY)};
      for (int n = 0; n < 3; ++n) {
        ASSERT_EQ(f.narrow(inputs[n]), expected[n]) << f.name << " " << low << " " << n;
        ASSERT_EQ(f.narrow(-inputs[n]), expected[n] | 0x8000u) << f.name << " " << low << " " << n;
      }
    }
}

TEST(Half, OverflowsToInfinityAndKeepsNaN) {
  for (const Format& f : kFormats) {
    EXPECT_EQ(f.narrow(std::numeric_limits<float>::max()), f.infinity()) << f.name;
    EXPECT_EQ(f.narrow(INFINITY), f.infinity()) << f.name;
    EXPECT_EQ(f.narrow(-INFINITY), f.infinity() | 0x8000u) << f.name;
    EXPECT_TRUE(std::isnan(f.widen(f.narrow(NAN)))) << f.name;
    // A NaN whose payload lies only in the bits that are cut off must not become infinity.
    EXPECT_TRUE(std::isnan(f.widen(f.narrow(std::bit_cast<float>(0x7f800001u))))) << f.name;
  }
}

TEST(Half, ElementsAreStoredInTheirType) {
  for (crossflash_dtype dtype : {CROSSFLASH_F32, CROSSFLASH_F16, CROSSFLASH_BF16}) {
    float memory[4] = {};
    const float value = 1.0f / 3;
    store_element(dtype, memory, 1, value);
    EXPECT_EQ(load_element(dtype, memory, 1), round_to(dtype, value));
    EXPECT_EQ(load_element(dtype, memory, 0), 0);
    EXPECT_EQ(load_element(dtype, memory, 2), 0);
    EXPECT_EQ(dtype == CROSSFLASH_F32, round_to(dtype, value) == value);
  }
}

}  // namespace
}  // namespace crossflash
