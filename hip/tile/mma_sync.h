// SPDX-License-Identifier: MIT
// mma_sync.h: NVIDIA's mma.sync.m16n8k16 (sm_80 on), two of them for a block of 16 x 16 x 16:
//
//   acc (16 rows x 16 columns) += row operand (16 rows x k) * column operand (16 columns x k)^T
//
// Every matrix family offers these names, with operands of two kinds: with k along the rows of a
// shared tile for both (kDepth of it), and for the second product of attention weights, packed from
// an accumulator, with k across the rows of the tile (kWeightDepth). Here the row operand is the
// instruction's A, the column operand its B, and an accumulator's elements already lie in the lanes
// in which A needs them, so that pack() needs no exchange.
#pragma once

#include "hip/tile/shared_tile.h"

namespace crossflash::hip {

struct MmaSync {
  static constexpr int kWave = 32;
  // Of the steps of a product so many are written out: all of them at once take many registers, but
  // are 7 % of forward.
  static constexpr CF_FN int unroll(int steps, bool spare) { return spare ? steps : steps / 2; }
  static constexpr CF_FN int unroll_across(int steps) { return steps; }
  static constexpr int kDepth = 16;
  static constexpr int kWeightDepth = 16;
  static constexpr int kGroup = 1;   // column blocks that load_across loads together
  static constexpr int kDealt = 1;   // parts of a block whose columns it deals out side by side
  static constexpr int kValues = 8;  // accumulator elements of a lane
  static constexpr int kSlots = 2;   // different rows among them
  static constexpr int kRun = 2;     // neighbouring values that are neighbouring columns of a row

  template <class T>
  struct RowOperand {
    shared::uint x[4];
  };
  template <class T>
  struct ColumnOperand {
    shared::uint x[4];  // columns 0 to 7, then 8 to 15
  };

  template <class T>
  using WeightOperand = RowOperand<T>;
  template <class T>
  using AcrossOperand = ColumnOperand<T>;

  // Where value v of a lane's accumulator lies in the block, and which of its rows that is.
  static constexpr CF_FN int slot(int v) { return (v >> 1) & 1; }
  static constexpr CF_FN int row(int lane, int v) { return lane / 4 + 8 * slot(v); }
  static constexpr CF_FN int column(int lane, int v) {
    return 8 * (v >> 2) + 2 * (lane % 4) + (v & 1);
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE RowOperand<T> load_row(Tile tile, int row0, int k0, int lane) {
    RowOperand<T> a;
    load_matrices(a.x, tile.chunk_of_block(row0, lane % 16, k0 / 8, lane / 16));
    return a;
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE WeightOperand<T> load_weight(Tile tile, int row0, int k0, int lane) {
    return load_row(tile, row0, k0, lane);
  }

  // Columns are rows of the tile, k runs along them.
  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE ColumnOperand<T> load_column(Tile tile, int column0, int k0, int lane) {
    ColumnOperand<T> b;
    load_matrices(b.x,
                  tile.chunk_of_block(column0, lane % 8 + lane / 16 * 8, k0 / 8, lane / 8 % 2));
    return b;
  }

  // Columns are columns of the tile, k runs across them.
  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE void load_across(AcrossOperand<T> (&b)[kGroup], Tile tile, int k0, int column0,
                                    int lane) {
    load_transposed(b[0].x, tile.chunk_of_block(k0, lane % 16, column0 / 8, lane / 16));
  }

  // Rows are columns of the tile, k runs across them.
  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE WeightOperand<T> load_row_across(Tile tile, int k0, int row0, int lane) {
    WeightOperand<T> a;
    load_transposed(a.x, tile.chunk_of_block(k0, lane % 8 + lane / 16 * 8, row0 / 8, lane / 8 % 2));
    return a;
  }

  // Columns [kWeightDepth * part, ...) of an accumulator.
  template <class T>
  static CF_DEVICE WeightOperand<T> pack(const float (&acc)[kValues], int /*part*/, int /*lane*/) {
    return {pack2<T>(acc[0], acc[1]), pack2<T>(acc[2], acc[3]), pack2<T>(acc[4], acc[5]),
            pack2<T>(acc[6], acc[7])};
  }

  template <class T>
  static CF_DEVICE void multiply(float (&acc)[kValues], const RowOperand<T>& a,
                                 const ColumnOperand<T>& b) {
    multiply_half<T>(acc, a.x, b.x);
    multiply_half<T>(acc + 4, a.x, b.x + 2);
  }

  // After one step of a product; the compiler may mix steps as it likes.
  static CF_DEVICE void end_step() {}

  // After a whole product: its instructions come before what follows.
  static CF_DEVICE void settle(float (&)[kValues]) {}

  static CF_DEVICE float row_max(float x) {
    x = max_of(x, shuffle_xor(x, 1));
    return max_of(x, shuffle_xor(x, 2));
  }
  static CF_DEVICE float row_sum(float x) {
    x += shuffle_xor(x, 1);
    return x + shuffle_xor(x, 2);
  }

 private:
  static CF_DEVICE unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
  }
  static CF_DEVICE void load_matrices(shared::uint (&x)[4], const void* chunk) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(chunk))
                 : "memory");
  }
  static CF_DEVICE void load_transposed(shared::uint (&x)[4], const void* chunk) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(chunk))
                 : "memory");
  }
  template <class T>
  static CF_DEVICE void multiply_half(float* c, const shared::uint* a, const shared::uint* b) {
    if constexpr (sizeof(T) == 2 && kDtype<T> == shared::CF_F16) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
          "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
          "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }
};

}  // namespace crossflash::hip
