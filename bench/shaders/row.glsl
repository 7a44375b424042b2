// SPDX-License-Identifier: MIT
// row.glsl: a workgroup on one row: its parameters, and the sum or maximum over its invocations.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 64;
layout(push_constant) uniform Rows { cf_rows rows; };

shared float partial[THREADS];

float reduce(float x, bool sum) {
  barrier();
  partial[gl_LocalInvocationIndex] = x;
  for (uint half_size = THREADS / 2; half_size > 0; half_size /= 2) {
    barrier();
    if (gl_LocalInvocationIndex < half_size) {
      const float other = partial[gl_LocalInvocationIndex + half_size];
      partial[gl_LocalInvocationIndex] =
          sum ? partial[gl_LocalInvocationIndex] + other : max(partial[gl_LocalInvocationIndex], other);
    }
  }
  barrier();
  return partial[0];
}
