// SPDX-License-Identifier: MIT
// mma_sync_f32.h: f32 on NVIDIA's mma.sync (sm_80 on), with the names of mma_sync.h. Every number
// is cut into three of bf16, 3 x 8 bits, which sum to it exactly:
//
//   a = high + middle + low, each the rest of a so far, to nearest: |middle| <= 2^-8 |a|,
//                            |low| <= 2^-17 |a|
//   a b = high high  +  high middle + middle high + middle middle + high low + low high
//
// and what is left out is below 2^-24 |a b|. Tensor cores cut off what does not fit; so they never
// sum along the depth: each 16 of it make one sum of the large products and one of the small, both
// from 0, which ordinary additions, to nearest, add to the accumulator. So a product alone is
// rounded once, and sums are by sixteen, closer than a chain of fused products. Infinities come out
// as NaN.
//
// The order in which k and the lanes' rows and columns are dealt out is free, and is such that
// operands are loaded 16 bytes at a time, 8 lanes from all 32 banks:
//
//   row, column   number n of the instruction's 8 is row n / 2 + 4 (n % 2): 0 4 1 5 2 6 3 7
//   k             a lane's four (2 t, 2 t + 1, 2 t + 8, 2 t + 9) are neighbours along a row of the
//                 tile; across rows they are those in which an accumulator's columns are dealt out
//   across        columns x and x + 8 of two blocks are four neighbours in the tile
#pragma once

#include "hip/tile/shared_tile.h"

namespace crossflash::hip {

struct MmaSyncF32 {
  static constexpr int kWave = 32;
  // Steps of a product that are written out: all of them are more than the instruction cache holds.
  static constexpr CF_FN int unroll(int /*steps*/, bool /*spare*/) { return 1; }
  static constexpr CF_FN int unroll_across(int /*steps*/) { return 1; }
  static constexpr int kDepth = 16;
  static constexpr int kWeightDepth = 16;
  static constexpr int kGroup = 2;
  static constexpr int kDealt = 2;
  static constexpr int kValues = 8;
  static constexpr int kSlots = 2;
  static constexpr int kRun = 1;
  static constexpr bool kLongSteps = true;    // more than the compiler writes out by itself
  static constexpr bool kSidesDiffer = true;  // a b is not rounded like b a, but if mirrored

  // Pairs of bf16, k side by side, as the instruction takes them.
  struct Pieces {
    shared::uint high[4], middle[4], low[4];

    // Pair n = (a, b).
    CF_DEVICE void set(int n, float a, float b) {
      high[n] = take(a, b);
      middle[n] = take(a, b);
      low[n] = pack2<bf16>(a, b);
    }

   private:
    // The pair in bf16; a and b become what that leaves of them.
    static CF_DEVICE shared::uint take(float& a, float& b) {
      const shared::uint pair = pack2<bf16>(a, b);
      a -= shared::cf_bits_float(pair << 16);
      b -= shared::cf_bits_float(pair & 0xffff0000u);
      return pair;
    }
  };

  template <class T>
  using RowOperand = Pieces;
  template <class T>
  using ColumnOperand = Pieces;  // columns 0 to 7, then 8 to 15
  template <class T>
  using WeightOperand = Pieces;
  template <class T>
  using AcrossOperand = Pieces;

  static constexpr CF_FN int place(int n) { return n / 2 + n % 2 * 4; }
  static constexpr CF_FN int slot(int v) { return (v >> 1) & 1; }
  static constexpr CF_FN int row(int lane, int v) { return place(lane / 4) + 8 * slot(v); }
  static constexpr CF_FN int column(int lane, int v) {
    return 8 * (v >> 2) + lane % 4 + 4 * (v & 1);
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE RowOperand<T> load_row(Tile tile, int row0, int k0, int lane) {
    Pieces a;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 x = load(tile, row0 + 8 * half, place(lane / 4), k0 / 4, lane % 4);
      a.set(half, x.x, x.y);
      a.set(2 + half, x.z, x.w);
    }
    return a;
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE ColumnOperand<T> load_column(Tile tile, int column0, int k0, int lane) {
    wave_fence();  // as in end_step
    Pieces b;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 x = load(tile, column0 + 8 * half, place(lane / 4), k0 / 4, lane % 4);
      b.set(2 * half, x.x, x.y);
      b.set(2 * half + 1, x.z, x.w);
    }
    return b;
  }

  // With k in the order of pack().
  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE WeightOperand<T> load_weight(Tile tile, int row0, int k0, int lane) {
    Pieces a;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const auto at = [&](int k) {
        return tile.chunk_of_block(row0 + 8 * (n % 2), place(lane / 4), k / 4, 0)[lane % 4];
      };
      const int k = k0 + 8 * (n / 2);
      a.set(n, at(k), at(k + 4));
    }
    return a;
  }

  template <class Tile, class T = typename Tile::T>
  static CF_DEVICE void load_across(AcrossOperand<T> (&b)[kGroup], Tile tile, int k0, int column0,
                                    int lane) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float4 x = load(tile, k0 + 8 * n, lane % 4, column0 / 4, place(lane / 4));
      const float4 y = load(tile, k0 + 8 * n, lane % 4 + 4, column0 / 4, place(lane / 4));
      b[0].set(n, x.x, y.x);
      b[0].set(2 + n, x.y, y.y);
      b[1].set(n, x.z, y.z);
      b[1].set(2 + n, x.w, y.w);
    }
  }

  template <class T>
  static CF_DEVICE WeightOperand<T> pack(const float (&acc)[kValues], int /*part*/, int /*lane*/) {
    Pieces a;
#pragma unroll
    for (int n = 0; n < 4; ++n) a.set(n, acc[2 * n], acc[2 * n + 1]);
    return a;
  }

  // kMirrored: rounds like the product of b and a.
  template <class T, bool kMirrored = false>
  static CF_DEVICE void multiply(float (&acc)[kValues], const Pieces& a, const Pieces& b) {
    float large[kValues] = {}, small[kValues] = {};  // smallest first
    add(small, kMirrored ? a.high : a.low, kMirrored ? b.low : b.high);
    add(small, kMirrored ? a.low : a.high, kMirrored ? b.high : b.low);
    add(small, a.middle, b.middle);
    add(small, kMirrored ? a.high : a.middle, kMirrored ? b.middle : b.high);
    add(small, kMirrored ? a.middle : a.high, kMirrored ? b.high : b.middle);
    add(large, a.high, b.high);
#pragma unroll
    for (int v = 0; v < kValues; ++v) acc[v] += large[v] + small[v];
  }

  // Without it the operands of many steps are loaded ahead, for which there are no registers.
  static CF_DEVICE void end_step() { wave_fence(); }
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
  // Chunk c0 + c of row row0 + row; see SharedTile::chunk_of_block.
  template <class Tile>
  static CF_DEVICE float4 load(Tile tile, int row0, int row, int c0, int c) {
    return *reinterpret_cast<const float4*>(tile.chunk_of_block(row0, row, c0, c));
  }
  static CF_DEVICE void add(float (&c)[kValues], const shared::uint (&a)[4],
                            const shared::uint (&b)[4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
          "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[4 * h]), "+f"(c[4 * h + 1]), "+f"(c[4 * h + 2]), "+f"(c[4 * h + 3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2 * h]), "r"(b[2 * h + 1]));
  }
};

}  // namespace crossflash::hip
