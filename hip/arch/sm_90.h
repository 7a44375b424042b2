// SPDX-License-Identifier: MIT
// sm_90.h: NVIDIA from Hopper on: what Ampere has, and 227 KiB of shared memory for a block. They
// give grad_all twice the queries a step, forward a second stage of K and V, and f32 larger tiles.
// Each shape was the fastest of several on an H200 that spill nothing. f32 gains most from waves of
// 32 rows, which cut up each operand in pieces once for two blocks.
#pragma once

#include "hip/arch/sm_80.h"

namespace crossflash::hip::arch {

struct sm_90 : sm_80 {
  static constexpr const char* kName = "sm_90";
  static constexpr int kSharedBytes = 227 * 1024;

  static constexpr TileShape forward_tile(int element_bytes, int head, bool general) {
    if (element_bytes == 4) {
      if (head <= 64) return {general ? 64 : 128, general ? 32 : 64, 4, 2};
      if (head <= 128) return {general ? 64 : 128, 32, 4, 2};
      return with_shared_weights({64, 32, 4, 1});
    }
    // A second stage is 0.5 % at 64, and spills 4 bytes.
    if (head > 64 && head <= 128) return {128, general ? 32 : 64, 4, 2, 2};
    return sm_80::forward_tile(element_bytes, head, general);
  }
  static constexpr TileShape grad_q_tile(int element_bytes, int head, bool general) {
    if (element_bytes == 4 && head <= 64)
      return with_shared_weights({general ? 64 : 128, 32, 4, 2});
    if (element_bytes == 4 && head <= 128) return with_shared_weights({64, 32, 4, 2});
    return sm_80::grad_q_tile(element_bytes, head, general);
  }
  static constexpr TileShape grad_kv_tile(int element_bytes, int head, bool general) {
    if (element_bytes == 4 && head <= 64) return with_shared_weights({64, 64, 4, 2, 1, 2});
    if (element_bytes == 4 && head <= 128) return {32, 64, 4, 1, 1, 2};
    return sm_80::grad_kv_tile(element_bytes, head, general);
  }
  static constexpr TileShape grad_all_tile(int head, bool general) {
    if (general && head <= 64) return {64, 128, 4, 2, 1, 1, 16, 4, 2};  // 128 rows spill 16 bytes
    if (head <= 64) return {128, 128, 4, 2, 1, 1, 32, 4, 2};
    if (general && head <= 128) return {64, 128, 8, 1, 1, 2, 16, 2, 2};  // 128 rows spill 8 bytes
    if (head <= 128) return {128, 128, 8, 1, 1, 2, 32, 2, 2};
    if (general) return {32, 128, 8, 1, 1, 4, 16, 4, 2};  // 64 rows spill up to 56 bytes
    return {64, 128, 8, 1, 1, 4, 32, 4, 2};
  }
};

}  // namespace crossflash::hip::arch
