// SPDX-License-Identifier: MIT
// gfx1200.h: Radeon RX 9060 (RDNA4).
#pragma once

#include "hip/arch/rdna.h"
#include "hip/tile/mma_wmma12.h"

namespace crossflash::hip::arch {

struct gfx1200 : Rdna<MmaWmma12> {
  static constexpr const char* kName = "gfx1200";
};

}  // namespace crossflash::hip::arch
