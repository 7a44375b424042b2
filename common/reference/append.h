// SPDX-License-Identifier: MIT
// append.h: what appending makes of a cache and of the queries, in double and on contiguous host
// tensors; see attention.h for the inputs.
#pragma once

#include "common/reference/attention.h"

namespace crossflash::reference {

// Like the inputs' k, v and q. Rows of k and v that are not appended are as they were; those of
// rotated_q that belong to no sequence hold 0. Without rotary rotated_q is empty.
struct Appended {
  std::vector<double> k, v, rotated_q;
};

Appended exact_append(const Problem& problem, const Inputs& inputs);

}  // namespace crossflash::reference
