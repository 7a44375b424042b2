// SPDX-License-Identifier: MIT
// Visibility against the contract's words, element by element, for every small shape, corner and
// window; and the ranges of tiles against what those elements say: none missed, none in excess.
#include <functional>

#include "common/shared/mask.h"
#include "tests/unit/support.h"

namespace crossflash {
namespace {

using shared::cf_visibility;
using testing::checked;
using testing::problem_of;

// The contract, from the fields a user sets.
bool visible(const crossflash_problem& p, std::int64_t i, std::int64_t j) {
  const std::int64_t offset = p.causal == CROSSFLASH_CAUSAL_TOP_LEFT ? 0 : p.seq_k - p.seq_q;
  if (j < 0 || j >= p.seq_k) return false;
  if (p.causal != CROSSFLASH_NOT_CAUSAL && j > i + offset) return false;
  if (p.window_left != -1 && j < i + offset - p.window_left) return false;
  if (p.window_right != -1 && j > i + offset + p.window_right) return false;
  return true;
}

void for_each_problem(const std::function<void(const crossflash_problem&)>& check) {
  for (int seq_q : {1, 2, 5, 8, 13})
    for (int seq_k : {0, 1, 4, 9, 13})
      for (auto causal :
           {CROSSFLASH_NOT_CAUSAL, CROSSFLASH_CAUSAL_TOP_LEFT, CROSSFLASH_CAUSAL_BOTTOM_RIGHT})
        for (int left : {-1, 0, 1, 3, 20})
          for (int right : {-1, 0, 2, 20}) {
            crossflash_problem p = problem_of(1, seq_q, seq_k, 1, 1, 4, 4);
            p.causal = causal;
            p.window_left = left;
            p.window_right = right;
            SCOPED_TRACE(fmt::format("seq {}x{} causal {} window {},{}", seq_q, seq_k,
                                     static_cast<int>(causal), left, right));
            check(p);
            if (::testing::Test::HasFailure()) return;
          }
}

// The smallest [begin, end) with every n < count that `seen` holds for; {0, 0} if there is none.
template <typename Seen>
std::pair<int, int> hull(int count, const Seen& seen) {
  std::pair<int, int> range{0, 0};
  for (int n = 0; n < count; ++n)
    if (seen(n)) {
      if (range.second == 0) range.first = n;
      range.second = n + 1;
    }
  return range;
}

std::pair<int, int> normalised(int begin, int end) {
  return begin < end ? std::pair{begin, end} : std::pair{0, 0};
}

TEST(SharedMask, SeesWhatTheContractSays) {
  for_each_problem([](const crossflash_problem& p) {
    const cf_visibility v = checked(p).visibility;
    for (int i = 0; i < p.seq_q; ++i)
      for (int j = -1; j <= p.seq_k; ++j)
        ASSERT_EQ(shared::cf_visible(v, i, j), visible(p, i, j)) << "i " << i << " j " << j;
  });
}

TEST(SharedMask, KeyRangesAreTheHullOfWhatATileSees) {
  for_each_problem([](const crossflash_problem& p) {
    const cf_visibility v = checked(p).visibility;
    for (int i0 = 0; i0 < p.seq_q; ++i0)
      for (int i1 = i0 + 1; i1 <= p.seq_q; ++i1) {
        const auto expected = hull(static_cast<int>(p.seq_k), [&](int j) {
          for (int i = i0; i < i1; ++i)
            if (visible(p, i, j)) return true;
          return false;
        });
        ASSERT_EQ(normalised(shared::cf_keys_begin(v, i0), shared::cf_keys_end(v, i1)), expected)
            << "queries " << i0 << " to " << i1;
      }
  });
}

TEST(SharedMask, QueryRangesAreTheHullOfWhatSeesATile) {
  for_each_problem([](const crossflash_problem& p) {
    const cf_visibility v = checked(p).visibility;
    const auto seq_q = static_cast<int>(p.seq_q);
    for (int j0 = 0; j0 < p.seq_k; ++j0)
      for (int j1 = j0 + 1; j1 <= p.seq_k; ++j1) {
        const auto expected = hull(seq_q, [&](int i) {
          for (int j = j0; j < j1; ++j)
            if (visible(p, i, j)) return true;
          return false;
        });
        ASSERT_EQ(normalised(shared::cf_queries_begin(v, j0, seq_q),
                             shared::cf_queries_end(v, j1, seq_q)),
                  expected)
            << "keys " << j0 << " to " << j1;
      }
  });
}

TEST(SharedMask, ATileIsFullIfEveryElementIsVisible) {
  for_each_problem([](const crossflash_problem& p) {
    const cf_visibility v = checked(p).visibility;
    for (int i0 = 0; i0 < p.seq_q; i0 += 2)
      for (int i1 = i0 + 1; i1 <= p.seq_q; i1 += 2)
        for (int j0 = 0; j0 < p.seq_k; ++j0)
          for (int j1 = j0 + 1; j1 <= p.seq_k + 1; ++j1) {
            bool all = true;
            for (int i = i0; i < i1; ++i)
              for (int j = j0; j < j1; ++j) all = all && visible(p, i, j);
            ASSERT_EQ(shared::cf_tile_full(v, i0, i1, j0, j1), all)
                << "queries " << i0 << " to " << i1 << ", keys " << j0 << " to " << j1;
          }
  });
}

TEST(SharedMask, DoesNotOverflowAtTheLongestSequencesAndWidestWindows) {
  const std::int64_t longest = std::int64_t{1} << 29;
  for (std::int64_t window : {longest - 1, longest, 2 * longest, std::int64_t{1} << 62}) {
    crossflash_problem p = problem_of(1, longest, longest, 1, 1, 1, 1);
    p.window_left = p.window_right = window;
    const cf_visibility v = checked(p).visibility;
    const auto last = static_cast<int>(longest - 1);
    EXPECT_TRUE(shared::cf_visible(v, last, 0)) << window;
    EXPECT_TRUE(shared::cf_visible(v, 0, last)) << window;
    EXPECT_EQ(shared::cf_keys_begin(v, last), 0) << window;
    EXPECT_EQ(shared::cf_keys_end(v, last + 1), last + 1) << window;
    EXPECT_EQ(shared::cf_queries_end(v, last + 1, last + 1), last + 1) << window;
    EXPECT_TRUE(shared::cf_tile_full(v, 0, last + 1, 0, last + 1)) << window;
  }
}

}  // namespace
}  // namespace crossflash
