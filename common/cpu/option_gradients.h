// SPDX-License-Identifier: MIT
// option_gradients.h: gradients of what options bring, from the row numbers that backward has left
// in Run::delta and Run::mend. Sums are in double, in one order.
#pragma once

#include "common/cpu/attention.h"

namespace crossflash::cpu {

// Every element of the bias' gradient: 0 where nothing is seen.
void bias_gradient(const Run& run);
void sink_gradient(const Run& run);

}  // namespace crossflash::cpu
