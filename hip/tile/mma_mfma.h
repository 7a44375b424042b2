// SPDX-License-Identifier: MIT
// mma_mfma.h: the matrix units of CDNA (gfx90a, gfx942, gfx950) by 16 x 16 MFMA instructions, with
// waves of 64. The row operand is the instruction's B, the column operand its A, so that the
// accumulator comes out transposed: a lane owns four neighbouring columns of one row,
//
//   acc:      row lane % 16, columns 4 (lane / 16) + {0, 1, 2, 3}
//   weights:  row lane % 16, k       4 (lane / 16) + {0, 1, 2, 3}      the same: nothing to
//   exchange along:    row lane % 16, k       8 (lane / 16) + {0 ... 7}         16 bytes, for 32 of
//   k
//
// "along" is the 16x16x32 instruction of gfx950; before it two of 16x16x16 take four k each from
// every lane: which k they are does not matter where both operands agree.
#pragma once

#include "hip/tile/quad.h"

namespace crossflash::hip {

struct MmaMfma {
  static constexpr int kWave = 64;
  // Steps of a product that are written out.
  static constexpr CF_FN int unroll(int steps, bool /*spare*/) { return steps; }
  static constexpr CF_FN int unroll_across(int steps) { return steps; }
  static constexpr int kDepth = 32;
  static constexpr int kWeightDepth = 16;
  static constexpr int kGroup = 4;
  static constexpr int kDealt = 1;
  static constexpr int kValues = 4;
  static constexpr int kSlots = 1;
  static constexpr int kRun = 4;

  using Float4 = float __attribute__((ext_vector_type(4)));
  using Half4 = _Float16 __attribute__((ext_vector_type(4)));
  using Half8 = _Float16 __attribute__((ext_vector_type(8)));
  using Short4 = short __attribute__((ext_vector_type(4)));
  using Brain8 = __bf16 __attribute__((ext_vector_type(8)));

  template <class T>
  struct alignas(16) RowOperand {
    shared::uint x[4];
  };
  template <class T>
  using ColumnOperand = RowOperand<T>;
  template <class T>
  struct alignas(8) WeightOperand {
    shared::uint x[2];
  };
  template <class T>
  struct alignas(8) AcrossOperand {
    shared::uint x[2];
  };

  static constexpr CF_FN int slot(int) { return 0; }
  static constexpr CF_FN int row(int lane, int) { return lane % 16; }
  static constexpr CF_FN int column(int lane, int v) { return lane / 16 * 4 + v; }

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
    return *reinterpret_cast<const WeightOperand<T>*>(
        tile.at(row0 + lane % 16, k0 + lane / 16 * 4));
  }
  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE void load_across(AcrossOperand<T> (&b)[kGroup], Tile tile, int k0, int column0,
                                    int lane) {
    shared::uint words[kGroup][2];
    load_quads<4>(words, tile, k0, lane / 16 * 4, column0, lane % 16);
#pragma unroll
    for (int g = 0; g < kGroup; ++g)
#pragma unroll
      for (int n = 0; n < 2; ++n) b[g].x[n] = words[g][n];
  }

  template <class T>
  static CF_DEVICE WeightOperand<T> pack(const float (&acc)[kValues], int /*part*/, int /*lane*/) {
    return {{pack2<T>(acc[0], acc[1]), pack2<T>(acc[2], acc[3])}};
  }

  template <class T>
  static CF_DEVICE void multiply(float (&acc)[kValues], const RowOperand<T>& rows,
                                 const ColumnOperand<T>& columns) {
#if defined(__gfx950__)
    Float4 c = {acc[0], acc[1], acc[2], acc[3]};
    if constexpr (kDtype<T> == shared::CF_F16)
      c = __builtin_amdgcn_mfma_f32_16x16x32_f16(__builtin_bit_cast(Half8, columns.x),
                                                 __builtin_bit_cast(Half8, rows.x), c, 0, 0, 0);
    else
      c = __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(Brain8, columns.x),
                                                  __builtin_bit_cast(Brain8, rows.x), c, 0, 0, 0);
    leave(acc, c);
#else
#pragma unroll
    for (int n = 0; n < 2; ++n)
      multiply(acc, WeightOperand<T>{{rows.x[2 * n], rows.x[2 * n + 1]}},
               AcrossOperand<T>{{columns.x[2 * n], columns.x[2 * n + 1]}});
#endif
  }

  template <class T>
  static CF_DEVICE void multiply(float (&acc)[kValues], const WeightOperand<T>& rows,
                                 const AcrossOperand<T>& columns) {
    Float4 c = {acc[0], acc[1], acc[2], acc[3]};
    if constexpr (kDtype<T> == shared::CF_F16)
      c = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(Half4, columns.x),
                                                __builtin_bit_cast(Half4, rows.x), c, 0, 0, 0);
    else
      c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(Short4, columns.x),
                                                    __builtin_bit_cast(Short4, rows.x), c, 0, 0, 0);
    leave(acc, c);
  }

  // After one step of a product; the compiler may mix steps as it likes.
  static CF_DEVICE void end_step() {}

  // After a whole product: its instructions come before what follows. Otherwise the compiler sinks
  // them past the next barrier to where the sums are used, with all operands in registers till
  // then.
  static CF_DEVICE void settle(float (&acc)[kValues]) {
    Float4 c = __builtin_bit_cast(Float4, acc);
    asm volatile("" : "+v"(c));
#pragma unroll
    for (int v = 0; v < kValues; ++v) acc[v] = c[v];
  }

  static CF_DEVICE float row_max(float x) {
    x = max_of(x, shuffle_xor(x, 16));
    return max_of(x, shuffle_xor(x, 32));
  }
  static CF_DEVICE float row_sum(float x) {
    x += shuffle_xor(x, 16);
    return x + shuffle_xor(x, 32);
  }

 private:
  static CF_DEVICE void leave(float (&acc)[kValues], Float4 c) {
#pragma unroll
    for (int v = 0; v < kValues; ++v) acc[v] = c[v];
  }
};

}  // namespace crossflash::hip
