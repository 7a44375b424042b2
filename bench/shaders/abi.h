// SPDX-License-Identifier: MIT
// abi.h: parameters of the unfused computation's kernels, one text for host and shaders.
#ifndef CROSSFLASH_BENCH_ABI_H
#define CROSSFLASH_BENCH_ABI_H
#include "../../common/shared/mask.h"
CF_BEGIN

// A matrix of each (batch, head), as distances in elements.
struct cf_matrix {
  uint row;
  uint column;
  uint head;
  uint batch;
};

// C (m, n) = the sum over `members` heads of A (m, k) B (k, n).
struct cf_gemm {
  cf_matrix a;
  cf_matrix b;
  cf_matrix c;
  uint m, n, k;
  uint heads;  // of C; head h uses head h / a_share of A and h / b_share of B
  uint a_share, b_share;
  uint members;             // heads of A and B that are summed
  uint a_member, b_member;  // and the distances between them
  uint reserved0, reserved1, reserved2;
};

// A pass over the rows of S or dP.
struct cf_rows {
  cf_visibility visibility;
  float scale;
  uint seq_q;
  uint reserved0, reserved1;
};

#ifndef CF_GLSL
static_assert(sizeof(cf_gemm) == 96 && sizeof(cf_rows) == 32, "push constants");
#endif

CF_END
#endif
