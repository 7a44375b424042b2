#version 450
// SPDX-License-Identifier: MIT
// softmax_gradient.comp: a row of dP becomes a row of dS = scale P (dP - D), D = dot(P, dP). One
// workgroup for each row.
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "row.glsl"

layout(std430, set = 0, binding = 1) readonly buffer P { float p[]; };
layout(std430, set = 0, binding = 2) buffer GradP { float grad[]; };

void main() {
  const uint seq_k = uint(rows.visibility.seq_k);
  const uint row = gl_WorkGroupID.x * seq_k;
  float dot = 0.0;
  for (uint j = gl_LocalInvocationIndex; j < seq_k; j += THREADS) dot += p[row + j] * grad[row + j];
  dot = reduce(dot, true);
  for (uint j = gl_LocalInvocationIndex; j < seq_k; j += THREADS)
    grad[row + j] = rows.scale * p[row + j] * (grad[row + j] - dot);
}
