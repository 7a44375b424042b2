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
#ifdef CF_ARENA
#define SINK(h) work[option_slice.arena + options.arena_sink + (h) - slice.head_begin]
#define GRAD_SINK(h) \
  work[option_slice.arena + options.arena_grad_sink + (h) * problem.group + slice.group_begin]
#else
layout(std430, set = 0, binding = CF_BIND_GRAD_SINK) buffer GradSink { float grad_sink[]; };
#define SINK(h) sink[option_skip(2) + (h)]
#define GRAD_SINK(h) grad_sink[option_skip(9) + (h)]
#endif

shared float sums[THREADS];

void main() {
  // A query head; in the arena, where only one of a group is, a key head.
  const uint h = slice.head_begin + slice.first_group + gl_WorkGroupID.x;
  Item w;
#ifdef CF_ARENA
  w.head = h - slice.head_begin;
  w.member = 0;
#else
  w.head = h / problem.group;
  w.member = h % problem.group;
#endif
  const float logit = SINK(h);
  float sum = 0.0;
  for (uint b = 0; b < slice.group_count; ++b) {
    w.batch = b;
    open_sequence(slice.batch_begin + b);
    const uint lse0 = query_element(problem.lse, slice.base_lse, w, w.member, 0);
    const uint delta0 = query_element(problem.lse, slice.base_delta, w, w.member, 0);
    [[dont_unroll]] for (int i = slice.query_begin + int(gl_LocalInvocationIndex); i < QUERY_END;
                         i += int(THREADS)) {
      const uint at = uint(i - slice.query_begin) * problem.lse.seq;
      sum += cf_probability(logit, load_lse(lse0 + at)) * work[delta0 + at];
    }
  }
  sums[gl_LocalInvocationIndex] = sum;
  barrier();
  if (gl_LocalInvocationIndex != 0) return;
  [[dont_unroll]] for (uint n = 1; n < THREADS; ++n) sum += sums[n];
  GRAD_SINK(h) = ((slice.carry & CF_CARRY_IN) != 0 ? GRAD_SINK(h) : 0.0) - sum;
}
