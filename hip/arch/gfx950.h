// SPDX-License-Identifier: MIT
// gfx950.h: Instinct MI350 (CDNA4): 16x16x32 MFMA, 160 KiB of LDS.
#pragma once

#include "hip/arch/cdna.h"

namespace crossflash::hip::arch {

struct gfx950 : Cdna {
  static constexpr const char* kName = "gfx950";
  static constexpr int kSharedBytes = 160 * 1024;
};

}  // namespace crossflash::hip::arch
