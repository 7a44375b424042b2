// SPDX-License-Identifier: MIT
// gfx1030.h: Radeon RX 6800, 6900 (RDNA2): no matrix units.
#pragma once

#include "hip/arch/rdna.h"

namespace crossflash::hip::arch {

struct gfx1030 : Rdna<MmaNone<32>> {
  static constexpr const char* kName = "gfx1030";
  static constexpr TileShape grad_q_tile(int element_bytes, int head, bool general) {
    if (head > 128) return AmdVector::grad_q_tile(head);  // two waves spill 2 registers, in f16
    return Rdna::grad_q_tile(element_bytes, head, general);
  }
};

}  // namespace crossflash::hip::arch
