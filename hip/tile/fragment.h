// SPDX-License-Identifier: MIT
// fragment.h: the register tile of a wave, (16 kRowBlocks) x (16 kColumnBlocks), and the two
// products of attention on it, both by 16 x 16 blocks of a matrix family (mma_*.h):
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

  // Ends a product.
  CF_DEVICE void settle() {
#pragma unroll
    for (int r = 0; r < kRowBlocks; ++r)
#pragma unroll
      for (int c = 0; c < kColumnBlocks; ++c) Mma::settle(x[r][c]);
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
template <class Mma, int kRowBlocks, class Value = float>
struct RowValues {
  Value x[kRowBlocks][Mma::kSlots];

  template <class F>
  CF_DEVICE void for_each(F f) {
#pragma unroll
    for (int b = 0; b < kRowBlocks; ++b)
#pragma unroll
      for (int s = 0; s < Mma::kSlots; ++s) f(b, s, x[b][s]);
  }
  CF_DEVICE void fill(Value value) {
    for_each([&](int, int, Value& at) { at = value; });
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

// How a product's sides are used: rows of the register tile are queries, and there are registers
// left to write out more of its steps, so that operands are loaded ahead; or not; or rows are keys.
// S and dP have the same bits in all three: a family whose rounding tells the sides apart has them
// change places.
enum class Product { spare, plain, mirrored };

// acc += A B^T for rows [row0, ...) of A and [column0, ...) of B.
template <Product kProduct = Product::plain, class F, class TileA, class TileB>
CF_DEVICE void add_product(F& acc, TileA a, int row0, TileB b, int column0, int lane) {
  using Mma = typename F::Mma;
  using T = typename TileA::T;
  constexpr int kUnroll = Mma::unroll(TileA::kWidth / Mma::kDepth, kProduct == Product::spare);
#pragma unroll kUnroll
  for (int k = 0; k < TileA::kWidth; k += Mma::kDepth) {
    typename Mma::template RowOperand<T> rows[F::kRowBlocks];
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r) rows[r] = Mma::load_row(a, row0 + 16 * r, k, lane);
#pragma unroll
    for (int c = 0; c < F::kColumnBlocks; ++c) {
      const auto columns = Mma::load_column(b, column0 + 16 * c, k, lane);
#pragma unroll
      for (int r = 0; r < F::kRowBlocks; ++r) {
        if constexpr (kProduct == Product::mirrored && requires { Mma::kSidesDiffer; })
          Mma::template multiply<T, true>(acc.x[r][c], rows[r], columns);
        else
          Mma::template multiply<T>(acc.x[r][c], rows[r], columns);
      }
    }
    Mma::end_step();
  }
  acc.settle();
}

// acc += one step of weights times rows [k0, ...) of X, for its columns [column0, ...). A family
// loads the operands of kGroup column blocks together, and may deal the columns out among them as
// it likes (store_sum undoes it).
template <class F, class Weights, class Tile>
CF_DEVICE void add_across(F& acc, const Weights& rows, Tile x, int k0, int column0, int lane) {
  using Mma = typename F::Mma;
  using T = typename Tile::T;
  static_assert(F::kColumnBlocks % Mma::kGroup == 0);
#pragma unroll
  for (int c = 0; c < F::kColumnBlocks; c += Mma::kGroup) {
    typename Mma::template AcrossOperand<T> columns[Mma::kGroup];
    Mma::load_across(columns, x, k0, column0 + 16 * c, lane);
#pragma unroll
    for (int g = 0; g < Mma::kGroup; ++g)
#pragma unroll
      for (int r = 0; r < F::kRowBlocks; ++r)
        Mma::template multiply<T>(acc.x[r][c + g], rows[r], columns[g]);
    Mma::end_step();
  }
}

// One step of add_weighted.
template <class F, class W, class Tile>
CF_DEVICE void add_weighted_step(F& acc, const W& w, Tile x, int x_row0, int column0, int lane,
                                 int k) {
  using Mma = typename F::Mma;
  using T = typename Tile::T;
  constexpr int kParts = 16 / Mma::kWeightDepth;
  typename Mma::template WeightOperand<T> rows[F::kRowBlocks];
#pragma unroll
  for (int r = 0; r < F::kRowBlocks; ++r)
    rows[r] = Mma::template pack<T>(w.x[r][k / kParts], k % kParts, lane);
  add_across(acc, rows, x, x_row0 + k * Mma::kWeightDepth, column0, lane);
}

// acc += W X for rows [x_row0, ...) of X, as many as W has columns, and its columns [column0, ...).
template <class F, class W, class Tile>
CF_DEVICE void add_weighted(F& acc, const W& w, Tile x, int x_row0, int column0, int lane) {
  using Mma = typename F::Mma;
  constexpr int kSteps = W::kColumnBlocks * 16 / Mma::kWeightDepth;
  if constexpr (requires { Mma::kLongSteps; }) {
    write_out<kSteps>([&](auto k) { add_weighted_step(acc, w, x, x_row0, column0, lane, k); });
  } else {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) add_weighted_step(acc, w, x, x_row0, column0, lane, k);
  }
  acc.settle();
}

// acc += A X like add_weighted, with the weights in shared memory.
template <class F, class TileA, class TileX>
CF_DEVICE void add_product_across(F& acc, TileA a, int row0, TileX x, int column0, int lane) {
  using Mma = typename F::Mma;
  using T = typename TileX::T;
  constexpr int kUnroll = Mma::unroll_across(TileA::kWidth / Mma::kWeightDepth);
#pragma unroll kUnroll
  for (int k = 0; k < TileA::kWidth; k += Mma::kWeightDepth) {
    typename Mma::template WeightOperand<T> rows[F::kRowBlocks];
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r) rows[r] = Mma::load_weight(a, row0 + 16 * r, k, lane);
    add_across(acc, rows, x, k, column0, lane);
  }
  acc.settle();
}

// acc += A^T X for columns [column_a, ...) of A and [column_x, ...) of X; k runs across both.
template <class F, class TileA, class TileX>
CF_DEVICE void add_transposed_product(F& acc, TileA a, int column_a, TileX x, int column_x,
                                      int lane) {
  using Mma = typename F::Mma;
  using T = typename TileX::T;
#pragma unroll
  for (int k = 0; k < TileA::kRows; k += Mma::kWeightDepth) {
    typename Mma::template WeightOperand<T> rows[F::kRowBlocks];
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r)
      rows[r] = Mma::load_row_across(a, k, column_a + 16 * r, lane);
    add_across(acc, rows, x, k, column_x, lane);
  }
  acc.settle();
}

// Rows [row0, ...) and columns [column0, ...) of a tile = the register tile, a sum of add_product.
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
        store_run<Mma::kRun, T>(
            tile.at(row0 + 16 * r + Mma::row(lane, v), column0 + 16 * c + Mma::column(lane, v)),
            &fragment.x[r][c][v]);
}

// The same of a sum of add_across or add_transposed_product.
template <class F, class Tile>
CF_DEVICE void store_sum(const F& fragment, Tile tile, int row0, int column0, int lane) {
  using Mma = typename F::Mma;
  using T = typename Tile::T;
  if constexpr (Mma::kGroup == 1) {
    store_fragment(fragment, tile, row0, column0, lane);
  } else {
    // Parts of kGroup blocks, kDealt of each: column x of part n is column kRun x + n of the tile.
    constexpr int kRun = Mma::kGroup * Mma::kDealt;
    constexpr int kOf = Mma::kValues / Mma::kDealt;  // values of a part
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r)
#pragma unroll
      for (int c = 0; c < F::kColumnBlocks; c += Mma::kGroup)
#pragma unroll
        for (int v = 0; v < kOf; ++v) {
          float run[kRun];
#pragma unroll
          for (int n = 0; n < kRun; ++n)
            run[n] = fragment.x[r][c + n / Mma::kDealt][v + n % Mma::kDealt * kOf];
          store_run<kRun, T>(tile.at(row0 + 16 * r + Mma::row(lane, v),
                                     column0 + 16 * c + kRun * Mma::column(lane, v)),
                             run);
        }
  }
}

}  // namespace crossflash::hip
