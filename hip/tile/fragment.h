// SPDX-License-Identifier: MIT
// fragment.h: the register tile of a wave, (16 kRowBlocks) x (16 kColumnBlocks), and the two
// products of attention on it. Both take 16 x 16 x kDepth steps of a matrix family (mma_*.h):
//
//   add_product      acc += A B^T   A, B in shared memory, depth along their rows     S = Q K^T
//   add_weighted     acc += W X     W another register tile, X in shared memory       O += P V
#pragma once

#include "hip/tile/shared_tile.h"

namespace crossflash::hip {

template <class Mma_, int kRowBlocks_, int kColumnBlocks_>
struct Fragment {
  using Mma = Mma_;
  static constexpr int kRowBlocks = kRowBlocks_;
  static constexpr int kColumnBlocks = kColumnBlocks_;

  float x[kRowBlocks][kColumnBlocks][Mma::kValues];

  CF_DEVICE void clear() {
    for_each([](int, int, int, float& value) { value = 0.0f; });
  }

  // f(row block, column block, value index, value)
  template <class F>
  CF_DEVICE void for_each(F f) {
#pragma unroll
    for (int r = 0; r < kRowBlocks; ++r)
      for_each_in(r, [&](int c, int v, float& value) { f(r, c, v, value); });
  }
  // The same in one row block: f(column block, value index, value)
  template <class F>
  CF_DEVICE void for_each_in(int r, F f) {
#pragma unroll
    for (int c = 0; c < kColumnBlocks; ++c)
#pragma unroll
      for (int v = 0; v < Mma::kValues; ++v) f(c, v, x[r][c][v]);
  }
};

// A number for each row of a register tile that this lane has a part of.
template <class Mma, int kRowBlocks>
struct RowValues {
  float x[kRowBlocks][Mma::kSlots];

  template <class F>
  CF_DEVICE void for_each(F f) {
#pragma unroll
    for (int b = 0; b < kRowBlocks; ++b)
#pragma unroll
      for (int s = 0; s < Mma::kSlots; ++s) f(b, s, x[b][s]);
  }
  CF_DEVICE void fill(float value) {
    for_each([&](int, int, float& at) { at = value; });
  }
};

// Row of the wave's tile in which slot s of row block b lies.
template <class Mma>
CF_DEVICE int slot_row(int b, int s, int lane) {
  int row = 0;
#pragma unroll
  for (int v = Mma::kValues - 1; v >= 0; --v)
    if (Mma::slot(v) == s) row = Mma::row(lane, v);
  return 16 * b + row;
}

// acc += A B^T for rows [row0, ...) of A and [column0, ...) of B.
template <class F, class TileA, class TileB>
CF_DEVICE void add_product(F& acc, TileA a, int row0, TileB b, int column0, int lane) {
  using Mma = typename F::Mma;
  using T = typename TileA::T;
#pragma unroll(Mma::kUnroll)
  for (int k = 0; k < TileA::kWidth; k += Mma::kDepth) {
    typename Mma::template RowOperand<T> rows[F::kRowBlocks];
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r) rows[r] = Mma::load_row(a, row0 + 16 * r, k, lane);
#pragma unroll
    for (int c = 0; c < F::kColumnBlocks; ++c) {
      const auto columns = Mma::load_column(b, column0 + 16 * c, k, lane);
#pragma unroll
      for (int r = 0; r < F::kRowBlocks; ++r)
        Mma::template multiply<T>(acc.x[r][c], rows[r], columns);
    }
  }
}

// acc += W X for rows [x_row0, ...) of X, as many as W has columns, and its columns [column0, ...).
template <class F, class W, class Tile>
CF_DEVICE void add_weighted(F& acc, const W& w, Tile x, int x_row0, int column0, int lane) {
  using Mma = typename F::Mma;
  using T = typename Tile::T;
  constexpr int kParts = 16 / Mma::kDepth;
#pragma unroll
  for (int k = 0; k < W::kColumnBlocks * kParts; ++k) {
    typename Mma::template RowOperand<T> rows[F::kRowBlocks];
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r)
      rows[r] = Mma::template pack<T>(w.x[r][k / kParts], k % kParts, lane);
#pragma unroll
    for (int c = 0; c < F::kColumnBlocks; ++c) {
      const auto columns =
          Mma::load_column_across(x, x_row0 + k * Mma::kDepth, column0 + 16 * c, lane);
#pragma unroll
      for (int r = 0; r < F::kRowBlocks; ++r)
        Mma::template multiply<T>(acc.x[r][c], rows[r], columns);
    }
  }
}

// acc += A X like add_weighted, with the weights in shared memory.
template <class F, class TileA, class TileX>
CF_DEVICE void add_product_across(F& acc, TileA a, int row0, TileX x, int column0, int lane) {
  using Mma = typename F::Mma;
  using T = typename TileX::T;
#pragma unroll(Mma::kUnroll)
  for (int k = 0; k < TileA::kWidth; k += Mma::kDepth) {
    typename Mma::template RowOperand<T> rows[F::kRowBlocks];
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r) rows[r] = Mma::load_row(a, row0 + 16 * r, k, lane);
#pragma unroll
    for (int c = 0; c < F::kColumnBlocks; ++c) {
      const auto columns = Mma::load_column_across(x, k, column0 + 16 * c, lane);
#pragma unroll
      for (int r = 0; r < F::kRowBlocks; ++r)
        Mma::template multiply<T>(acc.x[r][c], rows[r], columns);
    }
  }
}

// Rows [row0, ...) and columns [column0, ...) of a tile = the register tile.
template <class F, class Tile>
CF_DEVICE void store_fragment(const F& fragment, Tile tile, int row0, int column0, int lane) {
  using Mma = typename F::Mma;
  using T = typename Tile::T;
#pragma unroll
  for (int r = 0; r < F::kRowBlocks; ++r)
#pragma unroll
    for (int c = 0; c < F::kColumnBlocks; ++c)
#pragma unroll
      for (int v = 0; v < Mma::kValues; v += Mma::kRun)
        store_run<Mma::kRun, T>(tile.at(row0 + 16 * r + Mma::row(lane, v),
                                        column0 + 16 * c + Mma::column(lane, v)),
                                &fragment.x[r][c][v]);
}

}  // namespace crossflash::hip
