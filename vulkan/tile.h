// SPDX-License-Identifier: MIT
// tile.h: the shape of a kernel's tile, computed from the device's limits: how the invocations of a
// workgroup share a tile of BR x BC scores and their accumulators (the picture is in
// shaders/lib/tile.glsl). Pure: (request, caps) -> tile.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "vulkan/caps.h"

namespace crossflash::vulkan {

struct Tile {
  std::uint32_t threads = 0, thread_cols = 0;
  std::uint32_t rows = 0, cols = 0;        // of one invocation
  std::uint32_t depth = 0, strip = 0;      // staged at a time: head-size columns, accumulated rows
  std::uint32_t width_a = 1, width_b = 1;  // accumulator columns of one invocation, in vec4
  std::uint32_t panel = 0;                 // vec4 of the staging area

  std::uint32_t tile_rows() const { return rows * (threads / thread_cols); }  // BR
  std::uint32_t tile_cols() const { return cols * thread_cols; }              // BC
  std::uint64_t shared_bytes() const {
    return 16 * (std::uint64_t{panel} + std::uint64_t{tile_rows()} * (tile_cols() / 4 + 1));
  }
  // Values of the specialization constants CF_SPEC_* in order.
  std::array<std::uint32_t, 11> constants(std::uint32_t dtype, std::uint32_t features) const;
  std::string describe() const;  // "64x32"
};

// What a kernel does with each tile: products over head sizes, then accumulations into widths.
struct TileRequest {
  std::uint32_t product_widths = 0;  // head sizes of all products of a tile, summed
  std::uint32_t width_a = 0;         // head sizes of the accumulators; b may be 0
  std::uint32_t width_b = 0;
  std::uint32_t products = 1;   // score-sized register arrays
  std::int64_t row_length = 0;  // rows and columns the tiles must cover
  std::int64_t col_length = 0;
  double flops = 0;  // of a run: whether code of its own pays for its compilation
};

// Whether a driver on a CPU would compile for longer than it runs. Then one kernel serves many
// problems: its tile depends on the widths alone, rounded up, and what is asked of a score is looked
// at when it runs.
bool shares_pipelines(const TileRequest& request, const Caps& caps);

// The cheapest tile that fits; none if not even the smallest does.
std::optional<Tile> choose_tile(TileRequest request, const Caps& caps);

}  // namespace crossflash::vulkan
