#version 450
// SPDX-License-Identifier: MIT
// backward_dq.comp: dQ: a workgroup owns a tile of queries and walks over the keys they see
// (FlashAttention, Algorithm 4 with FlashAttention-2's loop order). It alone sees whole
// rows of P, so it leaves the factors that dK/dV mends them with (softmax.h). Long key loops are cut
// into dispatches that hand dQ and the sums of P on through the state.
#extension GL_GOOGLE_include_directive : require
#include "lib/io.glsl"
#include "lib/dot.glsl"
#include "lib/tile.glsl"
#include "lib/item.glsl"
#include "lib/gradient.glsl"

CF_READS(q, CF_BIND_Q)
CF_READS(k, CF_BIND_K)
CF_READS(v, CF_BIND_V)
CF_READS(grad_o, CF_BIND_GRAD_O)
CF_READS_F32(lse, CF_BIND_LSE)
CF_WRITES(grad_q, CF_BIND_GRAD_Q)

void main() {
  const Item w = find_item(slice.query_begin, slice.query_end, slice.group_count, BR);
  const int i0 = w.tile_begin;
  const int rows = rows_within(i0, QUERY_END);  // queries of this tile
  open_random();
  open_head(w, w.member);
  const uint bh = flat_head(w, w.member);
  const int at = i0 - slice.query_begin;
  const uint q0 = query_element(problem.q, slice.base_q, w, w.member, at);
  const uint grad_o0 = query_element(problem.grad_o, slice.base_grad_o, w, w.member, at);
  const uint lse0 = query_element(problem.lse, slice.base_lse, w, w.member, at);
  const uint delta0 = query_element(problem.lse, slice.base_delta, w, w.member, at);
  const uint mend0 = query_element(problem.lse, slice.base_mend, w, w.member, at);
  const uint state_pitch = problem.q.width + 1;  // dQ and the sum of P of one row
  const uint state = slice.base_state + w.row * state_pitch;

  float lse[ROWS];
  float D[ROWS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    const uint row = first_row() + r;
    const bool inside = int(row) < rows;
    lse[r] = inside ? load_lse(lse0 + row * problem.lse.seq) : cf_neg_inf();
    D[r] = inside ? work[delta0 + row * problem.lse.seq] : 0.0;
  }
  float sum[ROWS];  // of P, this invocation's share
  [[unroll]] for (uint r = 0; r < ROWS; ++r) sum[r] = 0.0;
  vec4 dq[ROWS * WIDTH_A];
  [[unroll]] for (uint x = 0; x < ROWS * WIDTH_A; ++x) dq[x] = vec4(0.0);
  if ((slice.carry & CF_CARRY_IN) != 0) {
#define RESUME(row, column, count) load4_work(state + row * state_pitch + column, count)
    RESUME_EACH(dq, WIDTH_A, rows, problem.q.width, RESUME)
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
      if (int(first_row() + r) < rows && thread_col() == 0)
        sum[r] = work[state + (first_row() + r) * state_pitch + problem.q.width];
  }

  const int key_begin = max(slice.key_begin, cf_keys_begin(VISIBILITY, i0));
  const int key_end = loop_end(rows, min(KEY_END, cf_keys_end(VISIBILITY, i0 + rows)));
  // Tiles start at whole blocks of dropout's draws.
  for (int j0 = key_begin & ~int(CF_DROPOUT_KEYS - 1); j0 < key_end; j0 += int(BC)) {
    const int from = key_begin - j0;  // keys of this tile: [from, to)
    const int to = key_end - j0;
    if (!tile_takes_part(i0, i0 + rows, max(j0, key_begin), min(j0 + int(BC), key_end))) continue;
    const uint k0 = key_element(problem.k, slice.base_k, w, j0 - slice.key_begin);
    const uint v0 = key_element(problem.v, slice.base_v, w, j0 - slice.key_begin);

    float s[SCORES];
    float ds[SCORES];
    PRODUCT(s, load4_q, q0, problem.q.seq, 0, rows, load4_k, k0, problem.k.seq, from, to,
            problem.q.width)  // S = Q K^T
    PRODUCT(ds, load4_grad_o, grad_o0, problem.grad_o.seq, 0, rows, load4_v, v0, problem.v.seq, from,
            to, problem.v.width)  // dP = dO V^T

    const bool full = from <= 0 && to >= int(BC) &&
                      cf_tile_full(VISIBILITY, i0, i0 + rows, j0, j0 + int(BC));
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      const int i = i0 + int(first_row() + r);
      const uvec4 block = dropout_block(bh, uint(i), uint(j0) + first_col());
      float tile_sum = 0.0;
      [[unroll]] for (uint c = 0; c < COLS; ++c) {
        const uint n = r * COLS + c;
        const int j = j0 + int(first_col() + c);
        const bool seen = takes_part(
            full || (j >= key_begin && j < key_end && cf_visible(VISIBILITY, i, j)), i < i0 + rows, i, j);
        const float p = seen ? cf_probability(score_of(s[n], i, j), lse[r]) : 0.0;
        ds[n] = raw_gradient(s[n], p, dropout_factor(block, uint(j)), ds[n], D[r]);
        tile_sum += p;
      }
      sum[r] += tile_sum;
    }
    share_weights(ds);
    ACCUMULATE(dq, WIDTH_A, load4_k, k0, problem.k.seq, from, to, problem.q.width)  // dQ += dS K
  }

  reduce_rows(sum, true);
  if ((slice.carry & CF_CARRY_OUT) != 0) {
#define SUSPEND(row, column, value, count) \
  store4_work(state + row * state_pitch + column, value, count)
    FOR_EACH(dq, WIDTH_A, rows, problem.q.width, SUSPEND)
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
      if (int(first_row() + r) < rows && thread_col() == 0)
        work[state + (first_row() + r) * state_pitch + problem.q.width] = sum[r];
    return;
  }
  const int written = QUERIES_TO_WRITE(i0, rows);
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    const uint row = first_row() + r;
    if (has_sink()) sum[r] += cf_probability(head_sink(), lse[r]);
    const float mend = cf_mend_row(sum[r], lse[r]);
    if (int(row) < rows && thread_col() == 0) work[mend0 + row * problem.lse.seq] = mend;
    [[unroll]] for (uint x = 0; x < WIDTH_A; ++x) dq[r * WIDTH_A + x] *= mend;
  }
  const uint grad_q0 = query_element(problem.grad_q, slice.base_grad_q, w, w.member, at);
#define STORE_DQ(row, column, value, count) \
  store4_grad_q(grad_q0 + row * problem.grad_q.seq + column, value, count)
  FOR_EACH(dq, WIDTH_A, written, problem.q.width, STORE_DQ)
}
