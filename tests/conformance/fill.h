// SPDX-License-Identifier: MIT
// fill.h: what the tensors of a case hold: designed data that is a function of `fill`, `data_seed`,
// the element type and the tensor's size alone. Every value is one of the type's; rows of no
// sequence hold NaN.
#pragma once

#include "common/case_line.h"
#include "common/problem.h"
#include "common/reference/attention.h"

namespace crossflash::conformance {

reference::Inputs make_inputs(const Case& c, const Problem& problem);

// What the options ask for; the part of make_inputs in fill_options.cpp.
void fill_options(const Case& c, const Problem& problem, reference::Inputs* inputs);

}  // namespace crossflash::conformance
