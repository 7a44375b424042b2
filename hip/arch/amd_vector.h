// SPDX-License-Identifier: MIT
// amd_vector.h: the tiles of AMD's vector units (f32, and every type without matrix units), as far
// as 64 KiB of LDS reach. Rows of a wave of 32 that holds dK and dV of head size 256 are its
// registers.
#pragma once

#include "hip/arch/tile_shape.h"
#include "hip/tile/mma_none.h"

namespace crossflash::hip::arch {

struct AmdVector {
  static constexpr TileShape forward_tile(int head) {
    if (head <= 64) return {64, 32, 4, 1};
    if (head <= 128) return {32, 32, 2, 1};
    return {32, 16, 2, 1};
  }
  static constexpr TileShape grad_q_tile(int head) {
    if (head <= 64) return {32, 32, 2, 1};
    if (head <= 128) return {32, 16, 2, 1};
    return {16, 16, 1, 1};
  }
  static constexpr TileShape grad_kv_tile(int head) {
    if (head <= 64) return {32, 32, 2, 1};
    if (head <= 128) return {32, 16, 2, 1};
    return {16, 16, 2, 1, 1, 2};
  }
  static constexpr TileShape wide_tile() { return {64, 16, 4, 1}; }
};

}  // namespace crossflash::hip::arch
