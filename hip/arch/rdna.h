// SPDX-License-Identifier: MIT
// rdna.h: what the gfx10, gfx11 and gfx12 GPUs share: waves of 32, 256 registers a lane at most, 64
// KiB of LDS for a block. They differ in the matrix family.
#pragma once

#include <type_traits>

#include "hip/arch/amd_vector.h"

namespace crossflash::hip::arch {

template <class Matrix>
struct Rdna {
  static constexpr int kSharedBytes = 64 * 1024;
  template <class T, int /*kHead*/ = 0>
  using Mma = std::conditional_t<sizeof(T) == 4, MmaNone<32>, Matrix>;

  static constexpr TileShape forward_tile(int element_bytes, int head, bool /*general*/) {
    if (element_bytes == 4) return AmdVector::forward_tile(head);
    if (head <= 64) return {128, 64, 8, 1};
    if (head <= 128) return {128, 32, 8, 1};
    return {64, 16, 4, 1};
  }
  // One stage: copies wait for their loads, so that other blocks fill the time, not other stages.
  static constexpr TileShape split_tile(int element_bytes, int head) {
    if (element_bytes == 4) return AmdVector::split_tile(head);
    return head <= 128 ? TileShape{16, 64, 4, 1} : TileShape{16, 32, 2, 1};
  }
  static constexpr TileShape grad_q_tile(int element_bytes, int head, bool /*general*/) {
    if (element_bytes == 4) return AmdVector::grad_q_tile(head);
    if (head <= 64) return {64, 32, 4, 1};
    if (head <= 128) return {64, 32, 4, 1};
    return {32, 16, 2, 1};
  }
  static constexpr TileShape grad_kv_tile(int element_bytes, int head, bool /*general*/) {
    if (element_bytes == 4) return AmdVector::grad_kv_tile(head);
    if (head <= 64) return {64, 32, 4, 1};
    if (head <= 128) return {64, 32, 8, 1, 1, 2};
    return {16, 32, 2, 1, 1, 2};
  }
  static constexpr TileShape wide_tile(int /*element_bytes*/, bool /*forward*/) {
    return AmdVector::wide_tile();
  }
};

}  // namespace crossflash::hip::arch
