// SPDX-License-Identifier: MIT
// quad.h: operands with k across the rows of a shared tile, for AMD's matrix units. They want
// neighbouring k of one column in a register, the tile has neighbouring columns side by side. Read
// one by one that would be a load for each element. Instead a lane reads four neighbouring columns
// at once, and they become the operands of four column blocks: column x of block g is column 4 x +
// g.
#pragma once

#include "hip/tile/shared_tile.h"

namespace crossflash::hip {

// words[g][n] = k first + 2 n and first + 2 n + 1 of column column0 + 4 * quad + g, where first is
// row0 + row (see SharedTile::quad).
template <int kDepth, class Tile>
CF_DEVICE void load_quads(shared::uint (&words)[4][kDepth / 2], Tile tile, int row0, int row,
                          int column0, int quad) {
  struct alignas(8) Quad {
    shared::uint low, high;  // columns 0, 1 and 2, 3
  };
#pragma unroll
  for (int n = 0; n < kDepth / 2; ++n) {
    const int k = 2 * n;
    const Quad a =
        *reinterpret_cast<const Quad*>(tile.quad(row0 + k / 8 * 8, row, k % 8, column0, quad));
    const Quad b =
        *reinterpret_cast<const Quad*>(tile.quad(row0 + k / 8 * 8, row, k % 8 + 1, column0, quad));
    words[0][n] = __builtin_amdgcn_perm(b.low, a.low, 0x05040100u);  // the low halves of both
    words[1][n] = __builtin_amdgcn_perm(b.low, a.low, 0x07060302u);  // the high halves
    words[2][n] = __builtin_amdgcn_perm(b.high, a.high, 0x05040100u);
    words[3][n] = __builtin_amdgcn_perm(b.high, a.high, 0x07060302u);
  }
}

}  // namespace crossflash::hip
