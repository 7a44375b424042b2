// SPDX-License-Identifier: MIT
// gfx90a.h: Instinct MI210, MI250 (CDNA2).
#pragma once

#include "hip/arch/cdna.h"

namespace crossflash::hip::arch {

struct gfx90a : Cdna {
  static constexpr const char* kName = "gfx90a";
};

}  // namespace crossflash::hip::arch
