// SPDX-License-Identifier: MIT
// units.h: every kernel of this build. CMake generates the list from the architectures it was asked
// for; newest architecture first, so that the first row that runs on a device is the best for it.
#pragma once

#include <span>
#include <string>

#include "hip/kernels/launch.h"

namespace crossflash::hip {

std::span<const Variants* const> units();

// "gfx90a, gfx942".
std::string architectures(std::span<const Variants* const> units);

}  // namespace crossflash::hip
