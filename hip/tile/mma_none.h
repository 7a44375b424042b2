// SPDX-License-Identifier: MIT
// mma_none.h: the matrix family of machines without matrix units, of f32 on AMD and of f32's large
// heads on NVIDIA: the names of mma_sync.h on vector units. Lanes stand in a grid over the 16 x 16
// block, a lane owns every kGridRows-th row and every kGridColumns-th column of it:
//
//   wave of 32: 4 x 8 lanes, 4 rows x 2 columns each; of 64: 8 x 8 lanes, 2 x 2
//
//   lanes   0  2  4  6  8 10 12 14      Lanes 0 and 1 want the same columns, 0 and 2 the same rows:
//           1  3  5  7  9 11 13 15      where neighbours ask for the same, NVIDIA reads 16 bytes
//          16 18 20 22 24 26 28 30      for each lane in two cycles, not four.
//          17 ...
//
// Weights are fetched from the row's other lanes by pack(), or go through shared memory.
#pragma once

#include "hip/tile/shared_tile.h"

namespace crossflash::hip {

template <int kWave_>
struct MmaNone {
  static constexpr int kWave = kWave_;
  static constexpr int kGridColumns = 8;
  static constexpr int kGridRows = kWave / kGridColumns;
  static constexpr int kOwnRows = 16 / kGridRows;
  static constexpr int kOwnColumns = 16 / kGridColumns;
  // Steps of a product that are written out: all of them are no faster, and much code.
  static constexpr CF_FN int unroll(int /*steps*/, bool spare) { return spare ? 4 : 2; }
  static constexpr CF_FN int unroll_across(int /*steps*/) { return 2; }
  static constexpr int kDepth = 4;
  static constexpr int kWeightDepth = 4;
  static constexpr int kGroup = 4;
  static constexpr int kDealt = 1;
  static constexpr int kValues = kOwnRows * kOwnColumns;
  static constexpr int kSlots = kOwnRows;
  static constexpr int kRun = 1;

  template <class T>
  struct RowOperand {
    float x[kOwnRows][kDepth];
  };
  template <class T>
  struct ColumnOperand {
    float x[kOwnColumns][kDepth];
  };

  template <class T>
  using WeightOperand = RowOperand<T>;
  template <class T>
  using AcrossOperand = ColumnOperand<T>;

  static constexpr CF_FN int grid_row(int lane) { return lane % 2 + lane / 16 * 2; }
  static constexpr CF_FN int grid_column(int lane) { return lane / 2 % kGridColumns; }

  static constexpr CF_FN int slot(int v) { return v / kOwnColumns; }
  static constexpr CF_FN int row(int lane, int v) { return grid_row(lane) + kGridRows * slot(v); }
  static constexpr CF_FN int column(int lane, int v) {
    return grid_column(lane) + kGridColumns * (v % kOwnColumns);
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE RowOperand<T> load_row(Tile tile, int row0, int k0, int lane) {
    RowOperand<T> a;
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
      load_run(a.x[r], tile, row0 + kGridRows * r / 8 * 8, grid_row(lane) + kGridRows * r % 8, k0);
    return a;
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE WeightOperand<T> load_weight(Tile tile, int row0, int k0, int lane) {
    return load_row(tile, row0, k0, lane);
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE ColumnOperand<T> load_column(Tile tile, int column0, int k0, int lane) {
    ColumnOperand<T> b;
#pragma unroll
    for (int c = 0; c < kOwnColumns; ++c)
      load_run(b.x[c], tile, column0 + kGridColumns * c, grid_column(lane), k0);
    return b;
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE void load_across(AcrossOperand<T> (&b)[kGroup], Tile tile, int k0, int column0,
                                    int lane) {
#pragma unroll
    for (int c = 0; c < kOwnColumns; ++c)
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        // One column of each block: neighbours in the tile.
        float run[kGroup];
        load_run(run, tile, k0 / 8 * 8, k0 % 8 + k, column0 + kGroup * kGridColumns * c,
                 kGroup * grid_column(lane));
#pragma unroll
        for (int g = 0; g < kGroup; ++g) b[g].x[c][k] = run[g];
      }
  }

  template <class T>
  static CF_DEVICE WeightOperand<T> pack(const float (&acc)[kValues], int part, int lane) {
    WeightOperand<T> a;
    const int first = kDepth * part;  // column of the block; all kDepth are one value of the lanes
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
#pragma unroll
      for (int k = 0; k < kDepth; ++k)
        a.x[r][k] = shuffle(acc[r * kOwnColumns + first / kGridColumns],
                            lane - 2 * grid_column(lane) + 2 * (first % kGridColumns + k));
    return a;
  }

  template <class T>
  static CF_DEVICE void multiply(float (&acc)[kValues], const RowOperand<T>& a,
                                 const ColumnOperand<T>& b) {
#pragma unroll
    for (int k = 0; k < kDepth; ++k)
#pragma unroll
      for (int r = 0; r < kOwnRows; ++r)
#pragma unroll
        for (int c = 0; c < kOwnColumns; ++c)
          acc[r * kOwnColumns + c] = fmaf(a.x[r][k], b.x[c][k], acc[r * kOwnColumns + c]);
  }

  // After one step of a product.
  static CF_DEVICE void end_step() { keep_order(); }

  // After a whole product: its instructions come before what follows.
  static CF_DEVICE void settle(float (&acc)[kValues]) {
#pragma unroll
    for (int v = 0; v < kValues; ++v) stay(acc[v]);
  }

  static CF_DEVICE float row_max(float x) {
#pragma unroll
    for (int step = 2; step <= kGridColumns; step *= 2) x = max_of(x, shuffle_xor(x, step));
    return x;
  }
  static CF_DEVICE float row_sum(float x) {
#pragma unroll
    for (int step = 2; step <= kGridColumns; step *= 2) x += shuffle_xor(x, step);
    return x;
  }

 private:
  // Neighbouring elements of row row0 + row from column0 + column on, in one chunk of the tile;
  // row0 and column0 are constants (see SharedTile::chunk_of_block).
  template <int kCount, class Tile, class T = typename Tile::T>
  static CF_DEVICE void load_run(float (&to)[kCount], Tile tile, int row0, int row, int column0,
                                 int column = 0) {
    struct alignas(kCount * sizeof(T)) Run {
      T x[kCount];
    };
    const T* chunk = tile.chunk_of_block(row0, row, column0 / Tile::kChunk, column / Tile::kChunk);
    const Run run =
        *reinterpret_cast<const Run*>(chunk + (column0 + column) % Tile::kChunk / kCount * kCount);
#pragma unroll
    for (int k = 0; k < kCount; ++k) to[k] = to_float(run.x[k]);
  }
};

}  // namespace crossflash::hip
