// SPDX-License-Identifier: MIT
// yardstick.h: what the plain unfused computation makes of a case, as the measure of everybody's
// error. Its own error in f32 depends on the order in which it adds up the products of a head, and
// where few numbers matter (one row, scores in the thousands) one order may hit the exact result by
// chance. So it is computed in two orders, and of each number the one further off counts.
#pragma once

#include "common/reference/attention.h"

namespace crossflash::conformance {

reference::Outputs plain_yardstick(const Problem& problem, const reference::Inputs& inputs,
                                   const reference::Outputs& exact);

}  // namespace crossflash::conformance
