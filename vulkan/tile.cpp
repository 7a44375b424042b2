// SPDX-License-Identifier: MIT
#include "vulkan/tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace crossflash::vulkan {
namespace {

// More registers than this in one array spill on several drivers (ggml-org/llama.cpp and others
// measured it at 64; 32 was safe everywhere).
constexpr std::uint32_t kMaxAccumulators = 32;
constexpr std::uint32_t kMaxScores = 16;  // two such arrays live beside two accumulators in dK/dV

// Relative costs, in fused multiply-adds of one invocation. Shared memory gives a quarter of a
// word for each multiply-add on most GPUs; staging is a global load, a test and a store.
constexpr double kSharedLoad = 4;
constexpr double kStage = 16;
constexpr double kBarrier = 64;
constexpr double kScore = 24;  // mask, exponential, statistics

std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

double accumulate_cost(const Tile& t, std::uint32_t width, std::uint32_t width_per_thread) {
  if (width == 0) return 0;
  const double padded = static_cast<double>(width_per_thread) * t.thread_cols;
  return padded * (1 + kSharedLoad * (1.0 / t.rows + 1.0 / width_per_thread) + kStage / t.tile_rows());
}

// Cost of one score of the problem: everything a tile does, over the scores that count.
double cost(const TileRequest& r, const Tile& t) {
  const double padded_depth = std::ceil(r.product_widths / double(t.depth)) * t.depth;
  const double barriers = 2.0 * padded_depth / t.depth + 2.0 * t.tile_cols() / t.strip + 4;
  const double per_score =
      padded_depth * (1 + kSharedLoad * (1.0 / t.rows + 1.0 / t.cols) +
                      kStage * (1.0 / t.tile_rows() + 1.0 / t.tile_cols())) +
      accumulate_cost(t, r.width_a, t.width_a) + accumulate_cost(t, r.width_b, t.width_b) + kScore +
      kSharedLoad * t.thread_cols / t.cols + kBarrier * barriers / (t.rows * t.cols);
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
    const std::uint32_t product = (t->tile_rows() + t->tile_cols()) * (depth + 1);
    // A strip may use what the product's slices need, or as much as one row needs.
    std::uint32_t strip = t->tile_cols();
    while (strip > 1 && strip * widest > product) strip /= 2;
    t->depth = depth;
    t->strip = strip;
    t->panel = std::max(product, strip * widest);
    if (t->shared_bytes() <= caps.shared_bytes) return true;
  }
  return false;
}

}  // namespace

std::array<std::uint32_t, 10> Tile::constants(std::uint32_t dtype) const {
  return {threads, dtype, thread_cols, rows, cols, depth, strip, width_a, width_b, panel};
}

std::string Tile::describe() const { return fmt::format("{}x{}", tile_rows(), tile_cols()); }

std::optional<Tile> choose_tile(const TileRequest& request, const Caps& caps) {
  std::optional<Tile> best;
  double best_cost = 0;
  for (const std::uint32_t threads : {256u, 128u, 64u, 32u}) {
    if (threads > caps.invocations) continue;
    for (std::uint32_t thread_cols = 4; thread_cols <= threads; thread_cols *= 2)
      for (std::uint32_t rows = 1; rows <= 8; rows *= 2)
        for (std::uint32_t cols = 1; cols <= 8; cols *= 2) {
          Tile t;
          t.threads = threads;
          t.thread_cols = thread_cols;
          t.rows = rows;
          t.cols = cols;
          t.width_a = divide_up(request.width_a, thread_cols);
          t.width_b = std::max(divide_up(request.width_b, thread_cols), 1u);
          if (rows * std::max(t.width_a, t.width_b) > kMaxAccumulators) continue;
          if (rows * cols > (request.products > 1 ? kMaxScores : 2 * kMaxScores)) continue;
          if (!choose_staging(request, caps, &t)) continue;
          const double c = cost(request, t);
          if (!best || c < best_cost) {
            best = t;
            best_cost = c;
          }
        }
  }
  return best;
}

}  // namespace crossflash::vulkan
