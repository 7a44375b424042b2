// SPDX-License-Identifier: MIT
// cdna.h: what gfx90a, gfx942 and gfx950 share: MFMA, waves of 64, 512 registers a lane with one
// wave on each of the four SIMDs of a compute unit, which the tiles count on.
#pragma once

#include <type_traits>

#include "hip/arch/amd_vector.h"
#include "hip/tile/mma_mfma.h"

namespace crossflash::hip::arch {

struct Cdna {
  static constexpr int kSharedBytes = 64 * 1024;
  template <class T, int /*kHead*/ = 0>
  using Mma = std::conditional_t<sizeof(T) == 4, MmaNone<64>, MmaMfma>;

  static constexpr TileShape forward_tile(int element_bytes, int head, bool /*general*/) {
    if (element_bytes == 4) return AmdVector::forward_tile(head);
    if (head <= 64) return {128, 64, 4, 1};
    if (head <= 128) return {128, 32, 4, 1};
    return {64, 32, 4, 1};
  }
  // One stage: copies wait for their loads, so that other blocks fill the time, not other stages.
  static constexpr TileShape split_tile(int element_bytes, int head) {
    if (element_bytes == 4) return AmdVector::split_tile(head);
    if (head <= 64) return {16, 64, 4, 1};
    return {16, 32, 2, 1};
  }
  static constexpr TileShape grad_q_tile(int element_bytes, int head, bool /*general*/) {
    if (element_bytes == 4) return AmdVector::grad_q_tile(head);
    if (head <= 64) return {128, 64, 4, 1};
    if (head <= 128) return {64, 32, 4, 1};
    return {32, 32, 2, 1};
  }
  static constexpr TileShape grad_kv_tile(int element_bytes, int head, bool general) {
    // With 16 columns the general kernel of head size 128 has scratch memory on gfx942 and gfx950.
    if (element_bytes == 4 && general && head > 64 && head <= 128) return {32, 32, 2, 1};
    if (element_bytes == 4) return AmdVector::grad_kv_tile(head);
    if (head <= 64) return {128, 64, 4, 1};
    if (head <= 128) return {64, 32, 4, 1};
    return {32, 32, 2, 1};
  }
  static constexpr TileShape wide_tile(int element_bytes, bool /*forward*/) {
    return element_bytes == 4 ? AmdVector::wide_tile() : TileShape{64, 32, 4, 1};
  }
};

}  // namespace crossflash::hip::arch
