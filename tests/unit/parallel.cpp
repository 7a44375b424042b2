// SPDX-License-Identifier: MIT
#include "common/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace crossflash {
namespace {

TEST(Parallel, RunsEachIndexOnce) {
  for (std::int64_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
    parallel_for(count, [&](std::int64_t n) { ++runs[static_cast<std::size_t>(n)]; });
    for (const auto& times : runs) ASSERT_EQ(times, 1);
  }
}

TEST(Parallel, AnExceptionStopsTheRestAndArrives) {
  std::atomic<std::int64_t> runs{0};
  const std::int64_t count = 1'000'000;
  const auto body = [&](std::int64_t n) {
    ++runs;
    if (n == 10) throw std::runtime_error("ten");
  };
  EXPECT_THROW(parallel_for(count, body), std::runtime_error);
  EXPECT_LT(runs, count);
}

}  // namespace
}  // namespace crossflash
