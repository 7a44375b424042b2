#version 450
// SPDX-License-Identifier: MIT
// softmax.comp: a row of S becomes a row of P. One workgroup for each row.
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "../../common/shared/softmax.h"
#include "row.glsl"

layout(std430, set = 0, binding = 1) buffer S { float s[]; };

void main() {
  const int i = int(gl_WorkGroupID.x % rows.seq_q);
  const uint row = gl_WorkGroupID.x * uint(rows.visibility.seq_k);
  const int begin = cf_keys_begin(rows.visibility, i);
  const int end = cf_keys_end(rows.visibility, i + 1);

  float m = cf_neg_inf();
  for (int j = begin + int(gl_LocalInvocationIndex); j < end; j += int(THREADS))
    m = max(m, rows.scale * s[row + j]);
  m = reduce(m, false);
  float l = 0.0;
  for (int j = begin + int(gl_LocalInvocationIndex); j < end; j += int(THREADS)) {
    const float p = cf_exp(rows.scale * s[row + j] - m);
    s[row + j] = p;
    l += p;
  }
  const float inverse = cf_inverse_sum(reduce(l, true));
  for (int j = int(gl_LocalInvocationIndex); j < rows.visibility.seq_k; j += int(THREADS))
    s[row + j] = j >= begin && j < end ? s[row + j] * inverse : 0.0;
}
