// SPDX-License-Identifier: MIT
// sm_80.h: NVIDIA from Ampere on, by mma.sync. Tiles keep two blocks on a multiprocessor, so that
// one computes while the other waits: 255 registers for each of 128 threads, half of the shared
// memory.
#pragma once

#include <type_traits>

#include "hip/arch/tile_shape.h"
#include "hip/tile/mma_none.h"
#include "hip/tile/mma_sync.h"
#include "hip/tile/mma_sync_f32.h"

namespace crossflash::hip::arch {

struct sm_80 {
  static constexpr const char* kName = "sm_80";
  static constexpr int kSharedBytes = 163 * 1024;
  // f32 sums of large heads leave too few registers for operands in pieces.
  template <class T, int kHead = 0>
  using Mma = std::conditional_t<sizeof(T) == 2, MmaSync,
                                 std::conditional_t<(kHead <= 128), MmaSyncF32, MmaNone<32>>>;

  static constexpr TileShape with_shared_weights(TileShape tile) {
    tile.shared_weights = true;
    return tile;
  }

  static constexpr TileShape forward_tile(int element_bytes, int head, bool general) {
    if (element_bytes == 4) {
      if (head <= 64) return {general ? 64 : 128, 32, 4, 2};
      if (head <= 128) return {64, general ? 16 : 32, 4, 2};
      return general ? with_shared_weights({64, 32, 4, 1}) : TileShape{64, 32, 4, 1};
    }
    if (head <= 64) return {128, general ? 32 : 128, 4, 2};
    if (head <= 128) return {128, general ? 16 : 48, 4, 2};  // 32 and 64 columns spill
    return {64, 64, 4, 2};
  }
  // Within the 99 KiB of the smaller GPUs. On H200 three blocks of two stages come to 94 % of what
  // a copy moves; f32 is bound by its arithmetic and gains more from blocks than from stages.
  static constexpr TileShape split_tile(int element_bytes, int head) {
    if (element_bytes == 4) {
      if (head <= 64) return {16, 64, 4, 2, 2};
      return head <= 128 ? TileShape{16, 64, 4, 2, 1} : TileShape{16, 32, 2, 2, 1};
    }
    return head <= 128 ? TileShape{16, 64, 4, 3, 2} : TileShape{16, 32, 2, 2, 2};
  }
  static constexpr TileShape grad_q_tile(int element_bytes, int head, bool general) {
    if (element_bytes == 4) {
      if (head <= 128) return with_shared_weights({64, head <= 64 ? 32 : 16, 4, 2});
      return {32, 16, 2, 1};
    }
    if (head <= 128) return {128, general ? 16 : 32, 4, 2, 2};
    return {64, 32, 4, 2, 1};
  }
  // With options f32's largest spills: the wide kernel takes its place.
  static constexpr bool has_general_grad_q(int element_bytes, int head) {
    return element_bytes == 2 || head <= 128;
  }
  static constexpr TileShape grad_kv_tile(int element_bytes, int head, bool general) {
    if (element_bytes == 4) {
      if (head <= 64) return with_shared_weights({64, 32, 4, 2});
      return {32, 32, 4, 1, 1, 2};
    }
    if (head <= 64) return {128, general ? 16 : 32, 4, 2, 2};
    if (head <= 128) return {128, general ? 32 : 64, 8, 1, 2, 2};
    return {64, 32, 8, 1, 2, 2};
  }
  static constexpr TileShape wide_tile(int element_bytes, bool forward) {
    if (element_bytes == 4) return {64, forward ? 32 : 16, 4, 1};  // 32 columns spill with a bias
    return {64, forward ? 64 : 32, 4, 2};  // backward's 48 columns spill with a bias
  }
  static constexpr TileShape grad_all_tile(int head, bool general) {
    if (head <= 64) return {general ? 64 : 128, 64, 4, 2, 1, 1, general ? 16 : 32, 2, 2};
    if (head <= 128) return {general ? 64 : 128, 64, 8, 1, 1, 2, general ? 16 : 0, 2, 2};
    return {general ? 32 : 64, 64, 8, 1, 1, 4, 0, 4, 2};
  }
};

}  // namespace crossflash::hip::arch
