// SPDX-License-Identifier: MIT
#include "vulkan/tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace crossflash::vulkan {
namespace {

// What things cost, in fused multiply-adds of one invocation, and how many numbers one may keep in
// a register array.
struct Costs {
  double shared_load;  // of a vec4
  double stage;        // of one element: a global load, a test, a share of a store
  double barrier;
  double score;  // mask, exponential, statistics
  std::uint32_t accumulators, scores;
};

// A GPU: shared memory gives about a word for each multiply-add. More registers in one array spill
// on several drivers (32 floats were safe wherever it was measured, 64 were not).
constexpr Costs kGpu = {4, 8, 64, 24, 32, 16};
// A driver on a CPU: a load is a loop over lanes, a barrier switches between invocations, and what
// does not fit the registers lies in the nearest cache.
constexpr Costs kSoftware = {64, 48, 200, 40, 256, 128};
// But its compiler takes a second for the code of such a tile and half a second for that of a small
// one, where a short run takes a millisecond: short runs share small tiles.
constexpr Costs kSoftwareShared = {4, 8, 64, 24, 8, 4};
constexpr double kLongRun = 2e9;

std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

double accumulate_cost(const Costs& k, const Tile& t, std::uint32_t width,
                       std::uint32_t width_per_thread) {
  if (width == 0) return 0;
  const double padded = 4.0 * width_per_thread * t.thread_cols;
  const double loads = 1.0 / (4 * t.rows) + 1.0 / (16 * width_per_thread);
  return padded * (1 + k.shared_load * loads + k.stage / t.tile_rows());
}

// Cost of one score of the problem: everything a tile does, over the scores that count.
double cost(const Costs& k, const TileRequest& r, const Tile& t) {
  const double padded_depth = std::ceil(r.product_widths / double(t.depth)) * t.depth;
  const double barriers = 2.0 * padded_depth / t.depth + 2.0 * t.tile_cols() / t.strip + 4;
  const double per_score =
      padded_depth * (1 + k.shared_load * (1.0 / t.rows + 1.0 / t.cols) / 4 +
                      k.stage * (1.0 / t.tile_rows() + 1.0 / t.tile_cols())) +
      accumulate_cost(k, t, r.width_a, t.width_a) + accumulate_cost(k, t, r.width_b, t.width_b) +
      k.score + k.shared_load * t.thread_cols / t.cols + k.barrier * barriers / (t.rows * t.cols);
  const auto waste = [](std::int64_t length, std::uint32_t tile) {
    if (length <= 0) return 1.0;
    return static_cast<double>((length + tile - 1) / tile * tile) / static_cast<double>(length);
  };
  return per_score * waste(r.row_length, t.tile_rows()) * waste(r.col_length, t.tile_cols());
}

// Fills in how much is staged at a time, the most that fits; false if nothing fits.
bool choose_staging(const TileRequest& r, const Caps& caps, Tile* t) {
  const std::uint32_t widest = t->thread_cols * std::max(t->width_a, t->width_b);
  for (const std::uint32_t depth : {32u, 16u, 8u, 4u}) {
    if (depth > 4 && depth / 2 >= r.product_widths) continue;  // half of it would be zeros
    const std::uint32_t product = (t->tile_rows() + t->tile_cols()) * (depth / 4 + 1);
    // A strip may use what the product's slices need, or what its fewest rows need.
    std::uint32_t strip = t->tile_cols();
    while (strip > 4 && strip * widest > product) strip /= 2;
    t->depth = depth;
    t->strip = strip;
    t->panel = std::max(product, strip * widest);
    if (t->shared_bytes() <= caps.shared_bytes) return true;
  }
  return false;
}

}  // namespace

std::array<std::uint32_t, 11> Tile::constants(std::uint32_t dtype, std::uint32_t features) const {
  return {threads, dtype, thread_cols, rows, cols, depth, strip, width_a, width_b, panel, features};
}

std::string Tile::describe() const { return fmt::format("{}x{}", tile_rows(), tile_cols()); }

bool shares_pipelines(const TileRequest& request, const Caps& caps) {
  // A tile that all lengths share is about so many rows and columns, however short a sequence is.
  const auto padding = [](std::int64_t length) {
    return std::max(64.0 / static_cast<double>(std::max<std::int64_t>(length, 1)), 1.0);
  };
  return caps.software &&
         request.flops * padding(request.row_length) * padding(request.col_length) <= kLongRun;
}

std::optional<Tile> choose_tile(TileRequest request, const Caps& caps) {
  const bool shared = shares_pipelines(request, caps);
  if (shared) {
    request.row_length = request.col_length = 0;  // whatever they are
    for (std::uint32_t* width : {&request.product_widths, &request.width_a, &request.width_b})
      if (*width > 0) *width = std::max(std::bit_ceil(*width), 16u);
  }
  const Costs& costs = shared                                      ? kSoftwareShared
                       : caps.software && request.flops > kLongRun ? kSoftware
                                                                   : kGpu;
  std::optional<Tile> best;
  double best_cost = 0;
  for (const std::uint32_t threads : {256u, 128u, 64u, 32u}) {
    if (threads > caps.invocations) continue;
    for (std::uint32_t thread_cols = 4; thread_cols <= threads; thread_cols *= 2)
      for (std::uint32_t rows = 1; rows <= 16; rows *= 2)
        for (const std::uint32_t cols : {4u, 8u}) {
          Tile t;
          t.threads = threads;
          t.thread_cols = thread_cols;
          t.rows = rows;
          t.cols = cols;
          t.width_a = divide_up(request.width_a, 4 * thread_cols);
          t.width_b = std::max(divide_up(request.width_b, 4 * thread_cols), 1u);
          if (4 * rows * std::max(t.width_a, t.width_b) > costs.accumulators) continue;
          if (rows * cols > (request.products > 1 ? costs.scores : 2 * costs.scores)) continue;
          if (!choose_staging(request, caps, &t)) continue;
          const double c = cost(costs, request, t);
          if (!best || c < best_cost) {
            best = t;
            best_cost = c;
          }
        }
  }
  return best;
}

}  // namespace crossflash::vulkan
