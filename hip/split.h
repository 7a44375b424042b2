// SPDX-License-Identifier: MIT
// split.h: whether forward splits the keys among blocks, and into how many stretches: pure
// functions of the problem, the kernels and the GPU, by a model of time that counts keys.
#pragma once

#include "hip/caps.h"
#include "hip/kernels/launch.h"

namespace crossflash::hip {

// The number of stretches that takes least time with this forward_split row, `least` or more if
// there are as many tiles of keys.
int best_splits(const Variant& split, const KernelArguments& arguments, const Caps& caps,
                int least);

// Whether forward_split with arguments.splits takes less time than the row of forward.
bool split_pays(const Variant& split, const Variant& whole, const KernelArguments& arguments,
                const Caps& caps);

// Whether one running sum over the keys would be less exact than f32 can be.
bool sums_too_long(shared::uint dtype, const KernelArguments& arguments);

}  // namespace crossflash::hip
