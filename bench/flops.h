// SPDX-License-Identifier: MIT
// flops.h: the floating-point operations attention is credited with, by the convention of the
// FlashAttention papers: two products of the scores' shape forward, 2.5 times that backward (five
// products), half of it under a causal mask; whatever a kernel really does.
#pragma once

#include "common/problem.h"

namespace crossflash::bench {

inline double forward_flops(const Problem& p, crossflash_causal causal) {
  const double dense = p.product_flops(p.d) + p.product_flops(p.d_v);
  return causal == CROSSFLASH_NOT_CAUSAL ? dense : dense / 2;
}

inline double backward_flops(const Problem& p, crossflash_causal causal) {
  return 2.5 * forward_flops(p, causal);
}

}  // namespace crossflash::bench
