// SPDX-License-Identifier: MIT
// Dropout: which sixteen bits decide which element, the rate they give, the ends of the range of
// probabilities, and that the exported mask is that rule.
#include "common/shared/dropout.h"

#include <array>

#include "tests/unit/support.h"

namespace crossflash {
namespace {

using shared::cf_dropout;
using shared::cf_keep;
using shared::uint;
using testing::checked;
using testing::problem_of;

uint threshold_of(float dropout) {
  crossflash_problem p = problem_of(1, 1, 1, 1, 1, 1, 1);
  p.dropout = dropout;
  return checked(p).drop_threshold;
}

// The draw of an element, from the rule in words: sixteen-bit halves in ascending order.
uint draw(const cf_dropout& p, uint bh, uint i, uint j) {
  const auto block = shared::cf_philox({j / 8, i, bh, p.offset}, p.seed_lo, p.seed_hi);
  const std::array<uint, 4> words{block.x, block.y, block.z, block.w};
  const uint half = j % 8;
  return half % 2 == 0 ? words[half / 2] & 0xffffu : words[half / 2] >> 16;
}

TEST(SharedDropout, AnElementIsDroppedIfItsDrawIsBelowTheThreshold) {
  for (uint threshold : {0u, 1u, 655u, 32768u, 65535u, 65536u}) {
    const cf_dropout p{123, 456, 7, threshold};
    for (uint bh : {0u, 3u, 70000u})
      for (uint i : {0u, 1u, 131071u})
        for (uint j = 0; j < 64; ++j) {
          ASSERT_EQ(cf_keep(p, bh, i, j), draw(p, bh, i, j) >= threshold);
          const auto block = shared::cf_dropout_block(p, bh, i, j / shared::CF_DROPOUT_KEYS);
          ASSERT_EQ(shared::cf_dropout_keeps(p, block, j), cf_keep(p, bh, i, j));
        }
  }
}

TEST(SharedDropout, ADrawEqualToTheThresholdIsKept) {
  for (uint j = 0; j < 32; ++j) {
    const uint value = draw({123, 456, 7, 0}, 1, 2, j);
    EXPECT_TRUE(cf_keep({123, 456, 7, value}, 1, 2, j));
    EXPECT_FALSE(cf_keep({123, 456, 7, value + 1}, 1, 2, j));
  }
}

TEST(SharedDropout, TheRateIsTheProbability) {
  constexpr int kDraws = 200000;
  for (float probability : {0.0f, 0.001f, 0.1f, 0.48f, 0.9f, 0.999f}) {
    const cf_dropout p{99, 1, 2, threshold_of(probability)};
    int dropped = 0;
    for (uint n = 0; n < kDraws; ++n) dropped += cf_keep(p, n % 5, n / 400, n % 400) ? 0 : 1;
    const double expected = kDraws * static_cast<double>(probability);
    const double deviation = std::sqrt(expected * (1 - static_cast<double>(probability)));
    EXPECT_NEAR(dropped, expected, 5 * deviation + kDraws / 65536.0) << probability;
  }
}

TEST(SharedDropout, TheProbabilityIsKeptToSixteenBits) {
  EXPECT_EQ(threshold_of(0.0f), 0u);
  EXPECT_EQ(threshold_of(1e-9f), 0u);
  EXPECT_EQ(threshold_of(1.0f / 65536), 1u);
  EXPECT_EQ(threshold_of(0.5f), 32768u);
  EXPECT_EQ(threshold_of(65535.0f / 65536), 65535u);
  EXPECT_EQ(threshold_of(std::nextafter(1.0f, 0.0f)), 65536u);  // drops all: no draw reaches it
}

TEST(SharedDropout, EveryCoordinateAndAllOfTheStateMatter) {
  const cf_dropout base{1, 2, 3, 32768};
  const auto mask = [](const cf_dropout& p, uint bh, uint i) {
    std::array<bool, 128> bits{};
    for (uint j = 0; j < bits.size(); ++j) bits[j] = cf_keep(p, bh, i, j);
    return bits;
  };
  const auto reference = mask(base, 0, 0);
  EXPECT_EQ(mask(base, 0, 0), reference);
  EXPECT_NE(mask(base, 1, 0), reference);
  EXPECT_NE(mask(base, 0, 1), reference);
  EXPECT_NE(mask({2, 2, 3, 32768}, 0, 0), reference);
  EXPECT_NE(mask({1, 3, 3, 32768}, 0, 0), reference);
  EXPECT_NE(mask({1, 2, 4, 32768}, 0, 0), reference);
}

TEST(SharedDropout, TheExportedMaskIsTheRule) {
  crossflash_problem p = problem_of(2, 5, 19, 6, 3, 4, 4);
  p.dropout = 0.3f;
  const std::uint64_t seed = 0x0123456789abcdefu;
  std::vector<std::uint8_t> mask(2 * 6 * 5 * 19);
  ASSERT_EQ(crossflash_dropout_mask(&p, seed, 9, mask.data()), CROSSFLASH_OK);
  const cf_dropout state{0x89abcdefu, 0x01234567u, 9, threshold_of(0.3f)};
  std::size_t at = 0;
  for (uint bh = 0; bh < 12; ++bh)
    for (uint i = 0; i < 5; ++i)
      for (uint j = 0; j < 19; ++j)
        ASSERT_EQ(mask[at++], draw(state, bh, i, j) >= state.threshold ? 1 : 0);
}

}  // namespace
}  // namespace crossflash
