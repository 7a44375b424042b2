// SPDX-License-Identifier: MIT
// fill.h: what the tensors of a case hold: designed data that is a function of `fill`, `data_seed`,
// the element type and the tensor's size alone. Every value is one of the type's.
#pragma once

#include "common/case_line.h"
#include "common/problem.h"
#include "common/reference/attention.h"

namespace crossflash::conformance {

reference::Inputs make_inputs(const Case& c, const Problem& problem);

}  // namespace crossflash::conformance
