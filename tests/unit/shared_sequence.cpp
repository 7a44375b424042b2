// SPDX-License-Identifier: MIT
// Rows of sequences from numbers that nobody has checked: whatever they are, no row lies outside of
// the tensor, and where they make sense they are what they say.
#include "common/shared/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace crossflash::shared {
namespace {

constexpr int kLowest = -2147483647 - 1, kHighest = 2147483647;

TEST(SharedSequence, SixtyFourBitsAreCutToThirtyTwo) {
  const auto index = [](std::int64_t n) {
    return cf_index64(static_cast<uint>(n), static_cast<uint>(static_cast<std::uint64_t>(n) >> 32));
  };
  for (const std::int64_t n : {0, 1, 77, kHighest}) EXPECT_EQ(index(n), n);
  EXPECT_EQ(index(std::int64_t{kHighest} + 1), kHighest);
  EXPECT_EQ(index(std::int64_t{1} << 32), kHighest);
  EXPECT_EQ(index((std::int64_t{1} << 32) + 5), kHighest);
  EXPECT_EQ(index(INT64_MAX), kHighest);
  EXPECT_EQ(index(-1), 0);
  EXPECT_EQ(index(INT64_MIN), 0);
}

TEST(SharedSequence, PaddedRowsStayWithinThePlace) {
  for (const int most : {0, 1, 64, 1 << 29})
    for (const int length : {kLowest, -1, 0, 1, 63, 64, 65, 1 << 29, kHighest}) {
      const cf_rows rows = cf_padded_rows(length, most);
      EXPECT_EQ(rows.first, 0);
      EXPECT_EQ(rows.count, std::clamp(length, 0, most));
    }
}

TEST(SharedSequence, PackedRowsStayWithinTheTensor) {
  constexpr int kNumbers[] = {kLowest, -5, -1, 0, 1, 9, 10, 99, 100, 101, kHighest};
  for (const int total : {0, 1, 100})
    for (const int most : {0, 7, 100, 1 << 29})
      for (const int from : kNumbers)
        for (const int to : kNumbers) {
          const cf_rows rows = cf_packed_rows(from, to, total, most);
          EXPECT_GE(rows.first, 0);
          EXPECT_GE(rows.count, 0);
          EXPECT_LE(rows.count, most);
          EXPECT_LE(rows.first + rows.count, total) << from << " to " << to << " of " << total;
          if (from >= 0 && from <= to && to <= total && to - from <= most) {
            EXPECT_EQ(rows.first, from);
            EXPECT_EQ(rows.count, to - from);
          }
          if (to < from) {
            EXPECT_EQ(rows.count, 0);
          }
        }
}

TEST(SharedSequence, VisibilityIsThatOfTheSequencesOwnLengths) {
  const cf_visibility longest{100, 30, 5, 0};
  const cf_visibility bottom = cf_visibility_of(longest, false, 7, 9);
  EXPECT_EQ(bottom.seq_k, 9);
  EXPECT_EQ(bottom.diagonal, 2);
  EXPECT_EQ(bottom.window_left, 5);
  EXPECT_EQ(bottom.window_right, 0);
  EXPECT_EQ(cf_visibility_of(longest, false, 9, 7).diagonal, -2);
  EXPECT_EQ(cf_visibility_of(longest, true, 7, 9).diagonal, 0);
}

TEST(SharedSequence, PagesStayWithinThePool) {
  for (const int pages : {1, 2, 1000})
    for (const int page : {kLowest, -7, 0, 1, 2, 999, 1000, 1 << 30, kHighest})
      EXPECT_EQ(cf_page(page, pages), std::clamp(page, 0, pages - 1));
}

}  // namespace
}  // namespace crossflash::shared
