// SPDX-License-Identifier: MIT
// append.h: new rows put into the cache of a run, with the rotation of keys and queries. Every row
// is one task's, so that no two write the same element.
#pragma once

#include "common/cpu/attention.h"

namespace crossflash::cpu {

struct NewRows {
  HostTensor k, v, rotated_q;  // rows as those of q
  const float *cosine, *sine;  // [positions, rotary / 2]
};

void append(const Run& run, const NewRows& rows);

}  // namespace crossflash::cpu
