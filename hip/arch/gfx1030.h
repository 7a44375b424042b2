// SPDX-License-Identifier: MIT
// gfx1030.h: Radeon RX 6800, 6900 (RDNA2): no matrix units.
#pragma once

#include "hip/arch/rdna.h"

namespace crossflash::hip::arch {

struct gfx1030 : Rdna<MmaNone<32>> {
  static constexpr const char* kName = "gfx1030";
};

}  // namespace crossflash::hip::arch
