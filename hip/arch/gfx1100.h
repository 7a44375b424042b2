// SPDX-License-Identifier: MIT
// gfx1100.h: Radeon RX 7900 (RDNA3).
#pragma once

#include "hip/arch/rdna.h"
#include "hip/tile/mma_wmma11.h"

namespace crossflash::hip::arch {

struct gfx1100 : Rdna<MmaWmma11> {
  static constexpr const char* kName = "gfx1100";
};

}  // namespace crossflash::hip::arch
