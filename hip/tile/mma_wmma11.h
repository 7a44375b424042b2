// SPDX-License-Identifier: MIT
// mma_wmma11.h: the matrix units of RDNA3 (gfx11) by 16x16x16 WMMA, with waves of 32. The row
// operand is the instruction's B, the column operand its A, so that the accumulator comes out
// transposed. A lane holds a whole row of an operand, and lanes 16 to 31 repeat lanes 0 to 15:
//
//   acc:       row lane % 16, columns 2 v + lane / 16 for v = 0 ... 7
//   operands:  row lane % 16, k 0 ... 15
//
// pack() fetches the other half of a row's weights from the lane 16 away.
#pragma once

#include "hip/tile/quad.h"

namespace crossflash::hip {

struct MmaWmma11 {
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
  static constexpr int kRun = 1;

  using Float8 = float __attribute__((ext_vector_type(8)));
  using Half16 = _Float16 __attribute__((ext_vector_type(16)));
  using Short16 = short __attribute__((ext_vector_type(16)));

  template <class T>
  struct RowOperand {
    shared::uint x[8];
  };
  template <class T>
  using ColumnOperand = RowOperand<T>;
  template <class T>
  using WeightOperand = RowOperand<T>;
  template <class T>
  using AcrossOperand = RowOperand<T>;

  static constexpr CF_FN int slot(int) { return 0; }
  static constexpr CF_FN int row(int lane, int) { return lane % 16; }
  static constexpr CF_FN int column(int lane, int v) { return 2 * v + lane / 16; }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE RowOperand<T> load_row(Tile tile, int row0, int k0, int lane) {
    struct alignas(16) Chunk {
      shared::uint x[4];
    };
    RowOperand<T> a;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Chunk chunk =
          *reinterpret_cast<const Chunk*>(tile.chunk_of_block(row0, lane % 16, k0 / 8, half));
#pragma unroll
      for (int n = 0; n < 4; ++n) a.x[4 * half + n] = chunk.x[n];
    }
    return a;
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
    shared::uint words[kGroup][8];
    load_quads<16>(words, tile, k0, 0, column0, lane % 16);
#pragma unroll
    for (int g = 0; g < kGroup; ++g)
#pragma unroll
      for (int n = 0; n < 8; ++n) b[g].x[n] = words[g][n];
  }

  template <class T>
  static CF_DEVICE WeightOperand<T> pack(const float (&acc)[kValues], int /*part*/, int lane) {
    WeightOperand<T> a;
    // Own columns 4 n + {0, 2} + lane / 16; the other lane's lie between them.
    const shared::uint even = lane < 16 ? 0x05040100u : 0x01000504u;  // bytes of {theirs, own}
    const shared::uint odd = lane < 16 ? 0x07060302u : 0x03020706u;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const shared::uint own = pack2<T>(acc[2 * n], acc[2 * n + 1]);
      const shared::uint theirs =
          __builtin_amdgcn_permlanex16(own, own, 0x76543210u, 0xfedcba98u, false, false);
      a.x[2 * n] = __builtin_amdgcn_perm(theirs, own, even);
      a.x[2 * n + 1] = __builtin_amdgcn_perm(theirs, own, odd);
    }
    return a;
  }

  template <class T>
  static CF_DEVICE void multiply(float (&acc)[kValues], const RowOperand<T>& rows,
                                 const ColumnOperand<T>& columns) {
    Float8 c = {acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7]};
    if constexpr (kDtype<T> == shared::CF_F16)
      c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(Half16, columns.x),
                                                     __builtin_bit_cast(Half16, rows.x), c);
    else
      c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(Short16, columns.x),
                                                      __builtin_bit_cast(Short16, rows.x), c);
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
