#version 450
// SPDX-License-Identifier: MIT
// gemm.comp: batched matrix product in f32, with the tiles and the inner loop of the fused kernels
// (vulkan/shaders/lib/tile.glsl), so that fused and unfused differ in what they store.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"

layout(local_size_x_id = CF_SPEC_THREADS) in;
layout(constant_id = CF_SPEC_THREADS) const uint THREADS = 64;
#include "../../vulkan/shaders/lib/dot.glsl"
#include "../../vulkan/shaders/lib/tile.glsl"

layout(push_constant) uniform Gemm { cf_gemm g; };
layout(std430, set = 0, binding = 1) readonly buffer A { float a_one[]; };
layout(std430, set = 0, binding = 1) readonly buffer A4 { vec4 a_four[]; };
layout(std430, set = 0, binding = 2) readonly buffer B { float b_one[]; };
layout(std430, set = 0, binding = 2) readonly buffer B4 { vec4 b_four[]; };
layout(std430, set = 0, binding = 3) writeonly buffer C { float c_one[]; };

// Four neighbours along an axis of distance 1 are one load where they lie in one place.
#define LOAD4(name, at, step, count)                                                          \
  ((step) == 1 && (count) >= 4 && ((at) & 3u) == 0                                            \
       ? name##_four[(at) >> 2]                                                               \
       : vec4((count) > 0 ? name##_one[at] : 0.0, (count) > 1 ? name##_one[(at) + (step)] : 0.0, \
              (count) > 2 ? name##_one[(at) + 2 * (step)] : 0.0,                              \
              (count) > 3 ? name##_one[(at) + 3 * (step)] : 0.0))

// Blocks of 4 rows and 4 columns of the depth, read along whichever axis is contiguous.
#define STAGE_PANEL(destination, owned, threads, rows, name, origin, along_row, along_depth,  \
                    row_begin, row_end, depth_begin, depth_end)                               \
  for (uint n = gl_LocalInvocationIndex; n < (rows) / 4 * (DEPTH / 4); n += THREADS) {         \
    const bool by_depth = (along_depth) == 1;                                                 \
    const uint r = 4 * (by_depth ? n / (DEPTH / 4) : n % ((rows) / 4));                       \
    const uint d = 4 * (by_depth ? n % (DEPTH / 4) : n / ((rows) / 4));                       \
    const uint row = (row_begin) + r;                                                         \
    const uint depth = (depth_begin) + d;                                                     \
    const uint some_rows = row < (row_end) ? (row_end)-row : 0;                               \
    const uint some_depth = depth < (depth_end) ? (depth_end)-depth : 0;                      \
    const uint at = (origin) + row * (along_row) + depth * (along_depth);                     \
    mat4 x = mat4(0.0);                                                                       \
    [[unroll]] for (uint e = 0; e < 4; ++e) {                                                 \
      if (by_depth && e < some_rows)                                                          \
        x[e] = LOAD4(name, at + e * (along_row), along_depth, some_depth);                    \
      if (!by_depth && e < some_depth)                                                        \
        x[e] = LOAD4(name, at + e * (along_depth), along_row, some_rows);                     \
    }                                                                                         \
    if (!by_depth) x = transpose(x);                                                          \
    [[unroll]] for (uint e = 0; e < 4; ++e)                                                   \
      panel[(destination) + place(r + e, owned, threads) * DEPTH_PITCH + d / 4] = x[e];        \
  }

void main() {
  const uint tiles_n = (g.n + BC - 1) / BC;
  const uint tiles_m = (g.m + BR - 1) / BR;
  uint n = gl_WorkGroupID.x;
  const uint column_begin = n % tiles_n * BC;
  n /= tiles_n;
  const uint row_begin = n % tiles_m * BR;
  n /= tiles_m;
  const uint head = n % g.heads;
  const uint batch = n / g.heads;

  float c[SCORES];
  [[unroll]] for (uint x = 0; x < SCORES; ++x) c[x] = 0.0;
  for (uint member = 0; member < g.members; ++member) {
    const uint a0 = batch * g.a.batch + head / g.a_share * g.a.head + member * g.a_member;
    const uint b0 = batch * g.b.batch + head / g.b_share * g.b.head + member * g.b_member;
    for (uint depth = 0; depth < g.k; depth += DEPTH) {
      barrier();
      STAGE_PANEL(0, ROWS, ROW_THREADS, BR, a, a0, g.a.row, g.a.column, row_begin, g.m, depth, g.k)
      STAGE_PANEL(BR * DEPTH_PITCH, COLS, THREAD_COLS, BC, b, b0, g.b.column, g.b.row, column_begin,
                  g.n, depth, g.k)
      barrier();
      multiply_panels(c);
    }
  }

  const uint c0 = batch * g.c.batch + head * g.c.head;
  [[unroll]] for (uint r = 0; r < ROWS; ++r)
    [[unroll]] for (uint x = 0; x < COLS; ++x) {
      const uint row = row_begin + first_row() + r;
      const uint column = column_begin + first_col() + x;
      if (row < g.m && column < g.n) c_one[c0 + row * g.c.row + column] = c[r * COLS + x];
    }
}
