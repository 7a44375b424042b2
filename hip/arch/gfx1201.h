// SPDX-License-Identifier: MIT
// gfx1201.h: Radeon RX 9070 (RDNA4).
#pragma once

#include "hip/arch/rdna.h"
#include "hip/tile/mma_wmma12.h"

namespace crossflash::hip::arch {

struct gfx1201 : Rdna<MmaWmma12> {
  static constexpr const char* kName = "gfx1201";
};

}  // namespace crossflash::hip::arch
