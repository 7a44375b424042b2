// SPDX-License-Identifier: MIT
// mma_none.h: the matrix family of machines without matrix units, and of f32 everywhere: the names
// of mma_sync.h on vector units. Lanes stand in a grid over the 16 x 16 block, a lane owns every
// kGridRows-th row and every kGridColumns-th column of it:
//
//   wave of 32: 4 x 8 lanes, 4 rows x 2 columns each; of 64: 8 x 8 lanes, 2 x 2
//
// Lanes of a row are neighbours. pack() fetches the row's elements from them.
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
  // Steps of a product that are written out.
  static constexpr CF_FN int unroll(int /*steps*/) { return 2; }
  static constexpr int kDepth = 4;
  static constexpr int kWeightDepth = 4;
  static constexpr int kGroup = 1;
  static constexpr int kValues = kOwnRows * kOwnColumns;
  static constexpr int kSlots = kOwnRows;
  static constexpr int kRun = 1;
  static constexpr int kRowLanes = kGridColumns;

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

  static constexpr CF_FN int slot(int v) { return v / kOwnColumns; }
  static constexpr CF_FN int row(int lane, int v) {
    return lane / kGridColumns + kGridRows * slot(v);
  }
  static constexpr CF_FN int column(int lane, int v) {
    return lane % kGridColumns + kGridColumns * (v % kOwnColumns);
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE RowOperand<T> load_row(Tile tile, int row0, int k0, int lane) {
    RowOperand<T> a;
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
      load_run(a.x[r], tile.at(row0 + lane / kGridColumns + kGridRows * r, k0));
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
      load_run(b.x[c], tile.at(column0 + lane % kGridColumns + kGridColumns * c, k0));
    return b;
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE void load_across(AcrossOperand<T> (&b)[kGroup], Tile tile, int k0, int column0,
                                    int lane) {
#pragma unroll
    for (int c = 0; c < kOwnColumns; ++c)
#pragma unroll
      for (int k = 0; k < kDepth; ++k)
        b[0].x[c][k] =
            to_float(*tile.at_of_row(k0 + k, column0 + kGridColumns * c, lane % kGridColumns));
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
                            lane / kGridColumns * kGridColumns + first % kGridColumns + k);
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

  // After one step of a product; the compiler may mix steps as it likes.
  static CF_DEVICE void end_step() {}

  // After a whole product: its instructions come before what follows.
  static CF_DEVICE void settle(float (&acc)[kValues]) {
#pragma unroll
    for (int v = 0; v < kValues; ++v) stay(acc[v]);
  }

  static CF_DEVICE float row_max(float x) {
#pragma unroll
    for (int step = 1; step < kGridColumns; step *= 2) x = max_of(x, shuffle_xor(x, step));
    return x;
  }
  static CF_DEVICE float row_sum(float x) {
#pragma unroll
    for (int step = 1; step < kGridColumns; step *= 2) x += shuffle_xor(x, step);
    return x;
  }

 private:
  // kDepth neighbouring elements that lie in one chunk.
  template <class T>
  static CF_DEVICE void load_run(float (&to)[kDepth], const T* from) {
    struct alignas(kDepth * sizeof(T)) Run {
      T x[kDepth];
    };
    const Run run = *reinterpret_cast<const Run*>(from);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) to[k] = to_float(run.x[k]);
  }
};

}  // namespace crossflash::hip
