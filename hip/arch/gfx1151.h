// SPDX-License-Identifier: MIT
// gfx1151.h: Radeon 8060S, Strix Halo (RDNA3.5).
#pragma once

#include "hip/arch/rdna.h"
#include "hip/tile/mma_wmma11.h"

namespace crossflash::hip::arch {

struct gfx1151 : Rdna<MmaWmma11> {
  static constexpr const char* kName = "gfx1151";
};

}  // namespace crossflash::hip::arch
