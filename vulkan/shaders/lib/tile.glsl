// SPDX-License-Identifier: MIT
// tile.glsl: the tile vocabulary of the attention kernels. A workgroup is ROW_THREADS x THREAD_COLS
// invocations over a tile of BR rows and BC columns; an invocation owns ROWS neighbouring rows and
// COLS neighbouring columns of it in registers:
//
//              BC = COLS * THREAD_COLS                 accumulators: BR x width, an invocation owns
//           +----+----+----+----+                      the same ROWS rows and every THREAD_COLS-th
//   BR =    | (ROWS x COLS of   |                      vec4 of columns
//   ROWS *  |  one invocation)  |
//   ROW_    +----+----+----+----+
//   THREADS
//
// PRODUCT       S = A B^T over the head size, staged DEPTH columns at a time    // (BR, BC)
// share_weights registers (BR, BC) to shared memory
// ACCUMULATE    acc += weights X, X staged STRIP rows at a time                 // (BR, width)
//
// Rows and columns outside a tensor are staged as zeros and never read. Shared memory is read four
// floats at a time. Every verb starts with a barrier, so that what the verb before read from shared
// memory may be overwritten.

layout(constant_id = CF_SPEC_THREAD_COLS) const uint THREAD_COLS = 8;
layout(constant_id = CF_SPEC_ROWS) const uint ROWS = 4;
layout(constant_id = CF_SPEC_COLS) const uint COLS = 4;        // a multiple of 4
layout(constant_id = CF_SPEC_DEPTH) const uint DEPTH = 16;     // a multiple of 4
layout(constant_id = CF_SPEC_STRIP) const uint STRIP = 16;     // a multiple of 4 that divides BC
layout(constant_id = CF_SPEC_WIDTH_A) const uint WIDTH_A = 2;  // in vec4, like WIDTH_B and PANEL
layout(constant_id = CF_SPEC_WIDTH_B) const uint WIDTH_B = 2;
layout(constant_id = CF_SPEC_PANEL) const uint PANEL = 480;

const uint ROW_THREADS = THREADS / THREAD_COLS;
const uint BR = ROWS * ROW_THREADS;
const uint BC = COLS * THREAD_COLS;
const uint SCORES = ROWS * COLS;          // scores of one invocation
const uint DEPTH_PITCH = DEPTH / 4 + 1;   // odd, so that rows fall into different banks
const uint WEIGHT_PITCH = BC / 4 + 1;

shared vec4 panel[PANEL];                // A's and B's slice, or a strip of X
shared vec4 weights[BR * WEIGHT_PITCH];  // P or dS; before, what row reductions exchange

// Where this invocation stands: among the threads, and its first row and column of the tile.
uint thread_row() { return gl_LocalInvocationIndex / THREAD_COLS; }
uint thread_col() { return gl_LocalInvocationIndex % THREAD_COLS; }
uint first_row() { return thread_row() * ROWS; }
uint first_col() { return thread_col() * COLS; }

// Where row r of a panel is kept if each thread owns `owned` neighbouring ones: neighbouring threads
// then read neighbouring places.
uint place(uint r, uint owned, uint threads) { return (r % owned) * threads + r / owned; }

// panel[destination + at * pitch + c] = columns column_begin + 4 c .. + 3 of row r, for r in [0, rows)
// and c in [0, columns / 4); `at` is an expression of r. Rows outside [valid_begin, valid_end) and
// columns from `width` on are zero. `origin` is the element of row 0; rows before valid_begin may
// lie before the tensor, so it may wrap around. row_of_load4(origin, r, stride) is the element of row r.
#define STAGE(destination, pitch, at, rows, columns, load4, origin, stride, valid_begin, valid_end, \
              column_begin, width)                                                            \
  [[dont_unroll]] for (uint n = gl_LocalInvocationIndex; n < (rows) * ((columns) / 4); n += THREADS) {         \
    const uint r = n / ((columns) / 4);                                                        \
    const uint c = n % ((columns) / 4);                                                        \
    const uint column = (column_begin) + 4 * c;                                                \
    vec4 x = vec4(0.0);                                                                        \
    if (int(r) >= (valid_begin) && int(r) < (valid_end) && column < (width))                   \
      x = load4(row_of_##load4(origin, r, stride) + column, (width) - column);                 \
    panel[(destination) + (at) * (pitch) + c] = x;                                             \
  }

// result += A slice * B slice^T
void multiply_panels(inout float result[SCORES]) {
  const uint a_row = thread_row() * DEPTH_PITCH;
  const uint b_row = (BR + thread_col()) * DEPTH_PITCH;
  [[dont_unroll]] for (uint k = 0; k < DEPTH / 4; ++k) {
    vec4 b[COLS];
    [[unroll]] for (uint c = 0; c < COLS; ++c) b[c] = panel[b_row + c * THREAD_COLS * DEPTH_PITCH + k];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      const vec4 a = panel[a_row + r * ROW_THREADS * DEPTH_PITCH + k];
      [[unroll]] for (uint c = 0; c < COLS; ++c) result[r * COLS + c] += dot4(a, b[c]);
    }
  }
}

// result = A B^T, A (BR, width) and B (BC, width)
#define PRODUCT(result, load4_a, a_origin, a_stride, a_begin, a_end, load4_b, b_origin, b_stride, \
                b_begin, b_end, width)                                                           \
  [[unroll]] for (uint x = 0; x < SCORES; ++x) result[x] = 0.0;                                  \
  [[dont_unroll]] for (uint slice_begin = 0; slice_begin < (width); slice_begin += DEPTH) {                      \
    barrier();                                                                                   \
    STAGE(0, DEPTH_PITCH, place(r, ROWS, ROW_THREADS), BR, DEPTH, load4_a, a_origin, a_stride,   \
          a_begin, a_end, slice_begin, width)                                                    \
    STAGE(BR * DEPTH_PITCH, DEPTH_PITCH, place(r, COLS, THREAD_COLS), BC, DEPTH, load4_b,        \
          b_origin, b_stride, b_begin, b_end, slice_begin, width)                                \
    barrier();                                                                                   \
    multiply_panels(result);                                                                     \
  }

void share_weights(float values[SCORES]) {
  barrier();
  [[unroll]] for (uint r = 0; r < ROWS; ++r)
    [[unroll]] for (uint c = 0; c < COLS / 4; ++c) {
      const uint n = r * COLS + 4 * c;
      weights[(r * ROW_THREADS + thread_row()) * WEIGHT_PITCH + first_col() / 4 + c] =
          vec4(values[n], values[n + 1], values[n + 2], values[n + 3]);
    }
}

// acc += weights X, X (BC, width); WIDTH vec4 of acc for each row of an invocation.
#define ACCUMULATE(acc, WIDTH, load4_x, x_origin, x_stride, x_begin, x_end, width)               \
  [[dont_unroll]] for (uint strip_begin = 0; strip_begin < BC; strip_begin += STRIP) {                           \
    const uint pitch = THREAD_COLS * WIDTH;                                                      \
    barrier();                                                                                   \
    STAGE(0, pitch, r, STRIP, 4 * pitch, load4_x, (x_origin) + strip_begin * (x_stride),         \
          x_stride, (x_begin) - int(strip_begin), (x_end) - int(strip_begin), 0, width)          \
    barrier();                                                                                   \
    [[dont_unroll]] for (uint k = 0; k < STRIP; k += 4) {                                                     \
      vec4 a[ROWS];                                                                              \
      [[unroll]] for (uint r = 0; r < ROWS; ++r)                                                 \
        a[r] = weights[(r * ROW_THREADS + thread_row()) * WEIGHT_PITCH + (strip_begin + k) / 4]; \
      [[unroll]] for (uint w = 0; w < WIDTH; ++w)                                                \
        [[unroll]] for (uint e = 0; e < 4; ++e) {                                                \
          const vec4 b = panel[(k + e) * pitch + thread_col() + THREAD_COLS * w];                \
          [[unroll]] for (uint r = 0; r < ROWS; ++r)                                             \
            acc[r * WIDTH + w] = fma(vec4(a[r][e]), b, acc[r * WIDTH + w]);                      \
        }                                                                                        \
    }                                                                                            \
  }

// The largest, or the sum, of each row's x over the invocations that share the row.
void reduce_rows(inout float x[ROWS], bool sum) {
  barrier();
  [[unroll]] for (uint r = 0; r < ROWS; ++r)
    weights[(first_row() + r) * THREAD_COLS + thread_col()].x = x[r];
  barrier();
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    float y = weights[(first_row() + r) * THREAD_COLS].x;
    for (uint c = 1; c < THREAD_COLS; ++c) {
      const float other = weights[(first_row() + r) * THREAD_COLS + c].x;
      y = sum ? y + other : max(y, other);
    }
    x[r] = y;
  }
}

// statement(row, column, value, count) for each vec4 of an accumulator that lies in the tensor, where
// `count` columns from `column` on are inside. A loop rather than straight code, with one place
// that stores: compilers take their time for every such place.
#define FOR_EACH(acc, WIDTH, rows, width, statement)                             \
  [[dont_unroll]] for (uint x = 0; x < ROWS * WIDTH; ++x) {                      \
    const uint row = first_row() + x / WIDTH;                                    \
    const uint column = 4 * (thread_col() + THREAD_COLS * (x % WIDTH));          \
    if (int(row) < (rows) && column < (width)) {                                 \
      vec4 value = vec4(0.0);                                                    \
      [[unroll]] for (uint n = 0; n < ROWS * WIDTH; ++n)                         \
        if (n == x) value = acc[n];                                              \
      statement(row, column, value, (width) - column);                           \
    }                                                                            \
  }

// The other way: each vec4 becomes resume(row, column, count).
#define RESUME_EACH(acc, WIDTH, rows, width, resume)                             \
  [[dont_unroll]] for (uint x = 0; x < ROWS * WIDTH; ++x) {                      \
    const uint row = first_row() + x / WIDTH;                                    \
    const uint column = 4 * (thread_col() + THREAD_COLS * (x % WIDTH));          \
    if (int(row) < (rows) && column < (width)) {                                 \
      const vec4 value = resume(row, column, (width) - column);                  \
      [[unroll]] for (uint n = 0; n < ROWS * WIDTH; ++n)                         \
        if (n == x) acc[n] = value;                                              \
    }                                                                            \
  }
