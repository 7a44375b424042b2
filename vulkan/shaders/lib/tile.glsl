// SPDX-License-Identifier: MIT
// tile.glsl: the tile vocabulary of the attention kernels. A workgroup is ROW_THREADS x THREAD_COLS
// invocations over a tile of BR rows and BC columns; an invocation owns ROWS neighbouring rows and
// COLS neighbouring columns of it in registers:
//
//              BC = COLS * THREAD_COLS                 accumulators: BR x WIDTH, an invocation owns
//           +----+----+----+----+                      the same ROWS rows and every THREAD_COLS-th
//   BR =    | (ROWS x COLS of   |                      column
//   ROWS *  |  one invocation)  |
//   ROW_    +----+----+----+----+
//   THREADS
//
// PRODUCT       S = A B^T over the head size, staged DEPTH columns at a time    // (BR, BC)
// share_weights registers (BR, BC) to shared memory
// ACCUMULATE    acc += weights X, X staged STRIP rows at a time                 // (BR, WIDTH)
//
// Rows and columns outside a tensor are staged as zeros and never read. Every verb starts with a
// barrier, so that what the verb before read from shared memory may be overwritten.
#extension GL_EXT_control_flow_attributes : require

layout(constant_id = CF_SPEC_THREAD_COLS) const uint THREAD_COLS = 8;
layout(constant_id = CF_SPEC_ROWS) const uint ROWS = 4;
layout(constant_id = CF_SPEC_COLS) const uint COLS = 4;
layout(constant_id = CF_SPEC_DEPTH) const uint DEPTH = 16;
layout(constant_id = CF_SPEC_STRIP) const uint STRIP = 16;
layout(constant_id = CF_SPEC_WIDTH_A) const uint WIDTH_A = 8;
layout(constant_id = CF_SPEC_WIDTH_B) const uint WIDTH_B = 8;
layout(constant_id = CF_SPEC_PANEL) const uint PANEL = 1632;

const uint ROW_THREADS = THREADS / THREAD_COLS;
const uint BR = ROWS * ROW_THREADS;
const uint BC = COLS * THREAD_COLS;
const uint SCORES = ROWS * COLS;  // scores of one invocation
const uint DEPTH_PITCH = DEPTH + 1;  // odd, so that rows fall into different banks
const uint WEIGHT_PITCH = BC + 1;

shared float panel[PANEL];                // A's and B's slice, or a strip of X
shared float weights[BR * WEIGHT_PITCH];  // P or dS; before, what row reductions exchange

// Where this invocation stands: among the threads, and its first row and column of the tile.
uint thread_row() { return gl_LocalInvocationIndex / THREAD_COLS; }
uint thread_col() { return gl_LocalInvocationIndex % THREAD_COLS; }
uint first_row() { return thread_row() * ROWS; }
uint first_col() { return thread_col() * COLS; }

// panel[r * pitch + c] = tensor(r, column_begin + c) for r in [0, rows) and c in [0, columns), where
// rows outside [valid_begin, valid_end) and columns from `width` on are zero. `origin` is the
// element of row 0; rows before valid_begin may lie before the tensor, so it may wrap around.
#define STAGE(destination, pitch, rows, columns, load, origin, stride, valid_begin, valid_end, \
              column_begin, width)                                                            \
  for (uint n = gl_LocalInvocationIndex; n < (rows) * (columns); n += THREADS) {               \
    const uint r = n / (columns);                                                              \
    const uint c = n % (columns);                                                              \
    const bool inside = int(r) >= (valid_begin) && int(r) < (valid_end) &&                     \
                        (column_begin) + c < (width);                                          \
    panel[(destination) + r * (pitch) + c] =                                                   \
        inside ? load((origin) + r * (stride) + (column_begin) + c) : 0.0;                     \
  }

// result += A slice * B slice^T
void multiply_panels(inout float result[SCORES]) {
  const uint a_row = first_row() * DEPTH_PITCH;
  const uint b_row = BR * DEPTH_PITCH + first_col() * DEPTH_PITCH;
  for (uint k = 0; k < DEPTH; ++k) {
    float a[ROWS];
    float b[COLS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) a[r] = panel[a_row + r * DEPTH_PITCH + k];
    [[unroll]] for (uint c = 0; c < COLS; ++c) b[c] = panel[b_row + c * DEPTH_PITCH + k];
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
      [[unroll]] for (uint c = 0; c < COLS; ++c)
        result[r * COLS + c] = fma(a[r], b[c], result[r * COLS + c]);
  }
}

// result = A B^T, A (BR, width) and B (BC, width)
#define PRODUCT(result, load_a, a_origin, a_stride, a_begin, a_end, load_b, b_origin, b_stride,  \
                b_begin, b_end, width)                                                           \
  [[unroll]] for (uint x = 0; x < SCORES; ++x) result[x] = 0.0;                             \
  for (uint slice_begin = 0; slice_begin < (width); slice_begin += DEPTH) {                      \
    barrier();                                                                                   \
    STAGE(0, DEPTH_PITCH, BR, DEPTH, load_a, a_origin, a_stride, a_begin, a_end, slice_begin,    \
          width)                                                                                 \
    STAGE(BR * DEPTH_PITCH, DEPTH_PITCH, BC, DEPTH, load_b, b_origin, b_stride, b_begin, b_end,  \
          slice_begin, width)                                                                    \
    barrier();                                                                                   \
    multiply_panels(result);                                                                     \
  }

void share_weights(float values[SCORES]) {
  barrier();
  [[unroll]] for (uint r = 0; r < ROWS; ++r)
    [[unroll]] for (uint c = 0; c < COLS; ++c)
      weights[(first_row() + r) * WEIGHT_PITCH + first_col() + c] = values[r * COLS + c];
}

// acc += weights X, X (BC, width); WIDTH columns of acc for each invocation.
#define ACCUMULATE(acc, WIDTH, load_x, x_origin, x_stride, x_begin, x_end, width)                \
  for (uint strip_begin = 0; strip_begin < BC; strip_begin += STRIP) {                           \
    const uint columns = THREAD_COLS * WIDTH;                                                    \
    barrier();                                                                                   \
    STAGE(0, columns, STRIP, columns, load_x, (x_origin) + strip_begin * (x_stride), x_stride,   \
          (x_begin) - int(strip_begin), (x_end) - int(strip_begin), 0, width)                    \
    barrier();                                                                                   \
    for (uint k = 0; k < STRIP; ++k) {                                                           \
      float a[ROWS];                                                                             \
      float b[WIDTH];                                                                            \
      [[unroll]] for (uint r = 0; r < ROWS; ++r)                                                 \
        a[r] = weights[(first_row() + r) * WEIGHT_PITCH + strip_begin + k];                      \
      [[unroll]] for (uint w = 0; w < WIDTH; ++w)                                                \
        b[w] = panel[k * columns + thread_col() + THREAD_COLS * w];                              \
      [[unroll]] for (uint r = 0; r < ROWS; ++r)                                                 \
        [[unroll]] for (uint w = 0; w < WIDTH; ++w)                                              \
          acc[r * WIDTH + w] = fma(a[r], b[w], acc[r * WIDTH + w]);                              \
    }                                                                                            \
  }

// For each accumulator of this invocation that lies in the tensor: its row, column and register.
#define FOR_EACH_ACCUMULATOR(WIDTH, rows, width, row, column, n)                     \
  [[unroll]] for (uint fr = 0; fr < ROWS; ++fr)                                      \
    [[unroll]] for (uint fw = 0; fw < WIDTH; ++fw)                                   \
      for (uint row = first_row() + fr, column = thread_col() + THREAD_COLS * fw,    \
                n = fr * WIDTH + fw, once = 0;                                       \
           once == 0 && int(row) < (rows) && column < (width); ++once)
