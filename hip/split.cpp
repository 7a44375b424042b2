// SPDX-License-Identifier: MIT
#include "hip/split.h"

#include <algorithm>

#include "common/shared/mask.h"

namespace crossflash::hip {
namespace {

// What starting and ending a block takes, and likewise combining, in tiles of keys (H200).
constexpr std::int64_t kBlockTiles = 2;

// Bytes of K and V's tiles that blocks of one multiprocessor must be at together, or else they wait
// for memory (H200).
constexpr std::int64_t kBusyBytes = 65536;

// A whole block takes so many times what one of forward_split does for a key: it has more rows, but
// uses K and V's tiles better (H200; 16-bit tiles of 128 rows against 16 and f32's of 64 alike).
constexpr std::int64_t kWholeTimes = 3;

// Sums are f32, and their error grows with their length. Keys that a stretch has at most; and that
// forward may have as one kernel, where elements are so exact that it shows.
constexpr std::int64_t kStretchKeys = 16384;
constexpr std::int64_t kWholeKeys = 65536;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Keys that a tile of this many neighbouring queries sees at most.
std::int64_t visible_keys(const KernelArguments& a, std::int64_t queries) {
  const shared::cf_visibility& v = a.visibility;
  std::int64_t keys = shared::cf_keys_end(v, a.seq_q) - shared::cf_keys_begin(v, 0);
  if (v.window_left >= 0 && v.window_right >= 0)
    keys = std::min(keys, std::int64_t{v.window_left} + v.window_right + queries);
  return std::max<std::int64_t>(keys, 1);
}

std::int64_t split_keys(const Variant& split, const KernelArguments& a) {
  return visible_keys(a, divide_up(split.rows, a.group));
}

}  // namespace

int best_splits(const Variant& split, const KernelArguments& arguments, const Caps& caps,
                int least) {
  const std::int64_t keys = split_keys(split, arguments);
  const std::int64_t tiles = divide_up(keys, split.cols);
  const std::int64_t tile_bytes = std::int64_t{split.cols} * (arguments.d + arguments.d_v) *
                                  (split.dtype == shared::CF_F32 ? 4 : 2);
  const std::int64_t busy = std::clamp<std::int64_t>(divide_up(kBusyBytes, tile_bytes), 2, 4);
  const std::int64_t most = std::min<std::int64_t>(tiles, kMostSplits);
  const std::int64_t first =
      std::min(most, std::max<std::int64_t>(least, divide_up(keys, kStretchKeys)));
  KernelArguments a = arguments;
  std::int64_t best = first, best_time = 0;
  for (std::int64_t splits = first; splits <= most; ++splits) {
    a.splits = static_cast<int>(splits);
    const std::int64_t share = divide_up(blocks(split, a), caps.multiprocessors);
    const std::int64_t time = std::max(share, busy) * (divide_up(tiles, splits) + kBlockTiles) +
                              (splits > 1 ? kBlockTiles : 0);
    if (splits > first && time >= best_time) continue;
    best = splits;
    best_time = time;
  }
  return static_cast<int>(best);
}

bool split_pays(const Variant& split, const Variant& whole, const KernelArguments& a,
                const Caps& caps) {
  // Blocks of one multiprocessor, whether they take turns or share it.
  const auto share = [&](const Variant& row) {
    return divide_up(blocks(row, a), caps.multiprocessors);
  };
  return share(split) * divide_up(split_keys(split, a), a.splits) <
         share(whole) * visible_keys(a, whole.rows) * kWholeTimes;
}

bool sums_too_long(shared::uint dtype, const KernelArguments& a) {
  return dtype == shared::CF_F32 && visible_keys(a, 1) > kWholeKeys;
}

}  // namespace crossflash::hip
