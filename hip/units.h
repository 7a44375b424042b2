// SPDX-License-Identifier: MIT
// units.h: every kernel of this build. CMake generates the list from the architectures it was asked
// for; newest traits first, so that the first row that runs on a device is the best for it.
#pragma once

#include <span>

#include "hip/kernels/launch.h"

namespace crossflash::hip {

// What was compiled from one traits file, pass and element type.
struct Unit {
  const Variants* rows;
  const char* gpus;  // that it was compiled for, as runs_on takes them
};

std::span<const Unit> units();

}  // namespace crossflash::hip
