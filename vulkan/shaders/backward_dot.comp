#version 450
// SPDX-License-Identifier: MIT
// backward_dot.comp: D_i = dot(do_i, o_i) (FlashAttention, Algorithm 4, line 4; it equals
// sum_j dP_ij P_ij). One query row for each invocation; D lies like LSE, in the work binding.
#extension GL_GOOGLE_include_directive : require
#include "lib/io.glsl"
#include "lib/dot.glsl"
#include "lib/item.glsl"

CF_READS(o, CF_BIND_O)
CF_READS(grad_o, CF_BIND_GRAD_O)

void main() {
  const Item w = find_item(slice.query_begin, slice.query_end, slice.group_count, THREADS);
  const int i = w.tile_begin + int(gl_LocalInvocationIndex);
  if (i >= QUERY_END) return;
  const int row = i - slice.query_begin;
  const uint o0 = query_element(problem.o, slice.base_o, w, w.member, row);
  const uint grad_o0 = query_element(problem.grad_o, slice.base_grad_o, w, w.member, row);
  // In the order in which PRODUCT sums dP = dO V^T, so that dP - D is 0 where o is v.
  float dot = 0.0;
  for (uint x = 0; x < problem.o.width; x += 4) {
    const uint count = problem.o.width - x;
    dot += dot4(load4_o(o0 + x, count), load4_grad_o(grad_o0 + x, count));
  }
  work[query_element(problem.lse, slice.base_delta, w, w.member, row)] = dot;
}
