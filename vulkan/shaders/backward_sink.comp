#version 450
// SPDX-License-Identifier: MIT
// backward_sink.comp: dSink_h = -sum_bi exp(sink_h - lse_bi) D_bi: the sink is an element of every row's
// softmax whose dP is 0. A workgroup for each query head, over the queries of the slice of group_count
// batches; what earlier slices gave is in the gradient itself.
#extension GL_GOOGLE_include_directive : require
#include "lib/io.glsl"
#include "lib/item.glsl"
#include "lib/gradient.glsl"

CF_READS_F32(lse, CF_BIND_LSE)
layout(std430, set = 0, binding = CF_BIND_GRAD_SINK) buffer GradSink { float grad_sink[]; };

shared float sums[THREADS];

void main() {
  const uint h = slice.first_group + gl_WorkGroupID.x;
  Item w;
  w.head = h / problem.group;
  w.member = h % problem.group;
  float sum = 0.0;
  for (uint b = 0; b < slice.group_count; ++b) {
    w.batch = slice.batch_begin + b;
    open_sequence(w.batch);
    const uint lse0 = query_element(problem.lse, slice.base_lse, w, w.member, 0);
    const uint delta0 = query_element(problem.lse, slice.base_delta, w, w.member, 0);
    [[dont_unroll]] for (int i = slice.query_begin + int(gl_LocalInvocationIndex); i < QUERY_END;
                         i += int(THREADS)) {
      const uint at = uint(i) * problem.lse.seq;
      sum += cf_probability(sink[option_skip(2) + h], load_lse(lse0 + at)) * work[delta0 + at];
    }
  }
  sums[gl_LocalInvocationIndex] = sum;
  barrier();
  if (gl_LocalInvocationIndex != 0) return;
  [[dont_unroll]] for (uint n = 1; n < THREADS; ++n) sum += sums[n];
  const uint at = option_skip(9) + h;
  grad_sink[at] = ((slice.carry & CF_CARRY_IN) != 0 ? grad_sink[at] : 0.0) - sum;
}
