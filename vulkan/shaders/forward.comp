#version 450
// SPDX-License-Identifier: MIT
// forward.comp: FlashAttention-2's forward: a workgroup owns a tile of queries and walks over the
// keys with the online softmax (FlashAttention, Algorithm 2). O and its statistics stay in
// registers. Long key loops are cut into dispatches that hand (o, m, l) on through the state.
#extension GL_GOOGLE_include_directive : require
#include "lib/io.glsl"
#include "lib/dot.glsl"
#include "lib/tile.glsl"
#include "lib/item.glsl"
#include "../../common/shared/dropout.h"
#include "../../common/shared/mask.h"
#include "../../common/shared/score.h"
#include "../../common/shared/softmax.h"
#include "lib/option.glsl"
#include "lib/pages.glsl"

CF_READS(q, CF_BIND_Q)
CF_READS_KEYS(k, CF_BIND_K)
CF_READS_KEYS(v, CF_BIND_V)
CF_WRITES(o, CF_BIND_O)
CF_WRITES_F32(lse, CF_BIND_LSE)

float m[ROWS];            // row maximum
float l[ROWS];            // this invocation's share of the row sum
vec4 o[ROWS * WIDTH_A];   // unnormalised output

void main() {
  const Item w = find_item(slice.query_begin, slice.query_end, slice.group_count, BR);
  const int i0 = w.tile_begin;
  const int rows = rows_within(i0, QUERY_END);  // queries of this tile
  open_random();
  open_head(w, w.member);
  open_pages(w);
  const uint bh = flat_head(w, w.member);
  const uint q0 = query_element(problem.q, slice.base_q, w, w.member, i0 - slice.query_begin);
  const uint state = slice.base_state + w.row * (problem.o.width + 2);
  const uint state_pitch = problem.o.width + 2;  // o, m, l of one row

  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    m[r] = cf_neg_inf();
    l[r] = 0.0;
  }
  if (has_sink()) {  // which is seen before any key and has no value
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
      if (int(first_row() + r) < rows && !cf_is_neg_inf(head_sink())) {
        m[r] = head_sink();
        l[r] = thread_col() == 0 ? 1.0 : 0.0;
      }
  }
  [[unroll]] for (uint x = 0; x < ROWS * WIDTH_A; ++x) o[x] = vec4(0.0);
  if ((slice.carry & CF_CARRY_IN) != 0) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      const uint row = first_row() + r;
      if (int(row) < rows) {
        m[r] = work[state + row * state_pitch + problem.o.width];
        if (thread_col() == 0) l[r] = work[state + row * state_pitch + problem.o.width + 1];
      }
    }
#define RESUME(row, column, count) load4_work(state + row * state_pitch + column, count)
    RESUME_EACH(o, WIDTH_A, rows, problem.o.width, RESUME)
  }

  const int key_begin = max(slice.key_begin, cf_keys_begin(VISIBILITY, i0));
  const int key_end = loop_end(rows, min(KEY_END, cf_keys_end(VISIBILITY, i0 + rows)));
  // Tiles start at whole blocks of dropout's draws.
  for (int j0 = key_begin & ~int(CF_DROPOUT_KEYS - 1); j0 < key_end; j0 += int(BC)) {
    const int from = key_begin - j0;  // keys of this tile: [from, to)
    const int to = key_end - j0;
    if (!tile_takes_part(i0, i0 + rows, max(j0, key_begin), min(j0 + int(BC), key_end))) continue;
    const uint k0 = key_origin(problem.k, slice.base_k, w, j0 - slice.key_begin);
    const uint v0 = key_origin(problem.v, slice.base_v, w, j0 - slice.key_begin);

    float s[SCORES];
    PRODUCT(s, load4_q, q0, problem.q.seq, 0, rows, load4_k, k0, key_stride(problem.k), from, to,
            problem.q.width)  // S = Q K^T

    const bool full = from <= 0 && to >= int(BC) &&
                      cf_tile_full(VISIBILITY, i0, i0 + rows, j0, j0 + int(BC));
    float tile_max[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      const int i = i0 + int(first_row() + r);
      tile_max[r] = m[r];
      [[unroll]] for (uint c = 0; c < COLS; ++c) {
        const int j = j0 + int(first_col() + c);
        const bool seen = takes_part(
            full || (j >= key_begin && j < key_end && cf_visible(VISIBILITY, i, j)), i < i0 + rows, i, j);
        const uint n = r * COLS + c;
        s[n] = seen ? score_of(s[n], i, j) : cf_neg_inf();
        tile_max[r] = cf_combine_max(tile_max[r], s[n]);
      }
    }
    reduce_rows(tile_max, false);

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      const float a = cf_rescale(m[r], tile_max[r]);
      m[r] = tile_max[r];
      l[r] *= a;
      [[unroll]] for (uint x = 0; x < WIDTH_A; ++x) o[r * WIDTH_A + x] *= a;
      [[unroll]] for (uint c = 0; c < COLS; ++c) {
        const uint n = r * COLS + c;
        s[n] = cf_weight(s[n], m[r]);
        l[r] += s[n];
      }
    }
    if (asked(CF_DROPOUT)) {
      const uint j = uint(j0) + first_col();
      [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uvec4 block = cf_dropout_block(RANDOM, bh, uint(i0) + first_row() + r,
                                             j / CF_DROPOUT_KEYS);
        [[unroll]] for (uint c = 0; c < COLS; ++c) {
          const uint n = r * COLS + c;
          s[n] = cf_dropout_keeps(RANDOM, block, j + c) ? s[n] * problem.score.keep_scale : 0.0;
        }
      }
    }
    share_weights(s);
    ACCUMULATE(o, WIDTH_A, load4_v, v0, key_stride(problem.v), from, to, problem.v.width)  // O += P V
  }

  if ((slice.carry & CF_CARRY_OUT) != 0) {
    reduce_rows(l, true);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      const uint row = first_row() + r;
      if (int(row) < rows && thread_col() == 0) {
        work[state + row * state_pitch + problem.o.width] = m[r];
        work[state + row * state_pitch + problem.o.width + 1] = l[r];
      }
    }
#define SUSPEND(row, column, value, count) \
  store4_work(state + row * state_pitch + column, value, count)
    FOR_EACH(o, WIDTH_A, rows, problem.o.width, SUSPEND)
    return;
  }

  reduce_rows(l, true);
  const uint o0 = query_element(problem.o, slice.base_o, w, w.member, i0 - slice.query_begin);
  const uint lse0 = query_element(problem.lse, slice.base_lse, w, w.member, i0 - slice.query_begin);
  const int written = QUERIES_TO_WRITE(i0, rows);
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    const uint row = first_row() + r;
    if (int(row) < written && thread_col() == 0)
      store_lse(lse0 + row * problem.lse.seq, cf_lse(m[r], l[r]));
    const float inverse = cf_inverse_sum(l[r]);
    [[unroll]] for (uint x = 0; x < WIDTH_A; ++x) o[r * WIDTH_A + x] *= inverse;
  }
#define STORE_O(row, column, value, count) \
  store4_o(o0 + row * problem.o.seq + column, value, count)
  FOR_EACH(o, WIDTH_A, written, problem.o.width, STORE_O)
}
