// SPDX-License-Identifier: MIT
// mma_wmma12.h: the matrix units of RDNA4 (gfx1200, gfx1201) by 16x16x16 WMMA, with waves of 32.
// The row operand is the instruction's B, the column operand its A, so that the accumulator comes
// out transposed: a lane owns eight neighbouring columns of one row,
//
//   acc:       row lane % 16, columns 8 (lane / 16) + {0 ... 7}
//   operands:  row lane % 16, k       8 (lane / 16) + {0 ... 7}        the same: nothing to
//   exchange
#pragma once

#include "hip/tile/quad.h"

namespace crossflash::hip {

struct MmaWmma12 {
  static constexpr int kWave = 32;
  // Steps of a product that are written out.
  static constexpr CF_FN int unroll(int steps, bool /*spare*/) { return steps; }
  static constexpr CF_FN int unroll_across(int steps) { return steps; }
  static constexpr int kDepth = 16;
  static constexpr int kWeightDepth = 16;
  static constexpr int kGroup = 4;
  static constexpr int kDealt = 1;
  static constexpr int kValues = 8;
  static constexpr int kSlots = 1;
  static constexpr int kRun = 8;

  using Float8 = float __attribute__((ext_vector_type(8)));
  using Half8 = _Float16 __attribute__((ext_vector_type(8)));
  using Short8 = short __attribute__((ext_vector_type(8)));

  template <class T>
  struct alignas(16) RowOperand {
    shared::uint x[4];
  };
  template <class T>
  using ColumnOperand = RowOperand<T>;
  template <class T>
  using WeightOperand = RowOperand<T>;
  template <class T>
  using AcrossOperand = RowOperand<T>;

  static constexpr CF_FN int slot(int) { return 0; }
  static constexpr CF_FN int row(int lane, int) { return lane % 16; }
  static constexpr CF_FN int column(int lane, int v) { return lane / 16 * 8 + v; }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE RowOperand<T> load_row(Tile tile, int row0, int k0, int lane) {
    return *reinterpret_cast<const RowOperand<T>*>(
        tile.chunk_of_block(row0, lane % 16, k0 / 8, lane / 16));
  }
  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE ColumnOperand<T> load_column(Tile tile, int column0, int k0, int lane) {
    return load_row(tile, column0, k0, lane);
  }
  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE WeightOperand<T> load_weight(Tile tile, int row0, int k0, int lane) {
    return load_row(tile, row0, k0, lane);
  }
  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE void load_across(AcrossOperand<T> (&b)[kGroup], Tile tile, int k0, int column0,
                                    int lane) {
    shared::uint words[kGroup][4];
    load_quads<8>(words, tile, k0, lane / 16 * 8, column0, lane % 16);
#pragma unroll
    for (int g = 0; g < kGroup; ++g)
#pragma unroll
      for (int n = 0; n < 4; ++n) b[g].x[n] = words[g][n];
  }

  template <class T>
  static CF_DEVICE WeightOperand<T> pack(const float (&acc)[kValues], int /*part*/, int /*lane*/) {
    return {{pack2<T>(acc[0], acc[1]), pack2<T>(acc[2], acc[3]), pack2<T>(acc[4], acc[5]),
             pack2<T>(acc[6], acc[7])}};
  }

  template <class T>
  static CF_DEVICE void multiply(float (&acc)[kValues], const RowOperand<T>& rows,
                                 const ColumnOperand<T>& columns) {
    Float8 c = {acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7]};
    if constexpr (kDtype<T> == shared::CF_F16)
      c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_bit_cast(Half8, columns.x),
                                                           __builtin_bit_cast(Half8, rows.x), c);
    else
      c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(Short8, columns.x),
                                                            __builtin_bit_cast(Short8, rows.x), c);
#pragma unroll
    for (int v = 0; v < kValues; ++v) acc[v] = c[v];
  }

  // After one step of a product: no instruction crosses. Left to itself the compiler loads the
  // operands of all steps first, more than there are registers for.
  static CF_DEVICE void end_step() { __builtin_amdgcn_sched_barrier(0); }

  // After a whole product: its instructions come before what follows. Otherwise the compiler sinks
  // them past the next barrier to where the sums are used, with all operands in registers till
  // then.
  static CF_DEVICE void settle(float (&acc)[kValues]) {
    Float8 c = __builtin_bit_cast(Float8, acc);
    asm volatile("" : "+v"(c));
#pragma unroll
    for (int v = 0; v < kValues; ++v) acc[v] = c[v];
  }

  static CF_DEVICE float row_max(float x) { return max_of(x, shuffle_xor(x, 16)); }
  static CF_DEVICE float row_sum(float x) { return x + shuffle_xor(x, 16); }
};

}  // namespace crossflash::hip
