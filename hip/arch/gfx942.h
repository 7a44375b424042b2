// SPDX-License-Identifier: MIT
// gfx942.h: Instinct MI300 (CDNA3).
#pragma once

#include "hip/arch/cdna.h"

namespace crossflash::hip::arch {

struct gfx942 : Cdna {
  static constexpr const char* kName = "gfx942";
};

}  // namespace crossflash::hip::arch
