#version 450
// SPDX-License-Identifier: MIT
// backward_dkv.comp: dK and dV: a workgroup owns a tile of keys, which are the rows of its tiles, and
// walks over the query heads of the group and the queries that see it (FlashAttention, Algorithm 4
// with the key loop outside). No atomics: each sum has one owner and one order. Long query loops
// are cut into dispatches that hand (dK, dV) on through the state.
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
CF_WRITES(grad_k, CF_BIND_GRAD_K)
CF_WRITES(grad_v, CF_BIND_GRAD_V)

void main() {
  const Item w = find_item(slice.key_begin, slice.key_end, 1, BR);
  const int j0 = w.tile_begin;
  const int rows = rows_within(j0, KEY_END);  // keys of this tile
  open_random();
  const uint k0 = key_element(problem.k, slice.base_k, w, j0 - slice.key_begin);
  const uint v0 = key_element(problem.v, slice.base_v, w, j0 - slice.key_begin);
  const uint state_pitch = problem.k.width + problem.v.width;
  const uint state = slice.base_state + w.row * state_pitch;

  vec4 dk[ROWS * WIDTH_A];
  vec4 dv[ROWS * WIDTH_B];
  [[unroll]] for (uint x = 0; x < ROWS * WIDTH_A; ++x) dk[x] = vec4(0.0);
  [[unroll]] for (uint x = 0; x < ROWS * WIDTH_B; ++x) dv[x] = vec4(0.0);
  if ((slice.carry & CF_CARRY_IN) != 0) {
#define RESUME_DK(row, column, count) load4_work(state + row * state_pitch + column, count)
#define RESUME_DV(row, column, count) \
  load4_work(state + row * state_pitch + problem.k.width + column, count)
    RESUME_EACH(dk, WIDTH_A, rows, problem.k.width, RESUME_DK)
    RESUME_EACH(dv, WIDTH_B, rows, problem.v.width, RESUME_DV)
  }

  const int query_begin = max(slice.query_begin, cf_queries_begin(VISIBILITY, j0, SEQ_Q));
  const int query_end =
      loop_end(rows, min(QUERY_END, cf_queries_end(VISIBILITY, j0 + rows, SEQ_Q)));
  for (uint member = 0; member < slice.group_count; ++member) {
    const uint bh = flat_head(w, member);
    open_head(w, member);
    for (int i0 = query_begin; i0 < query_end; i0 += int(BC)) {
      const int columns = min(int(BC), query_end - i0);  // queries of this tile
      if (!tile_takes_part(i0, i0 + columns, j0, j0 + rows)) continue;
      const int at = i0 - slice.query_begin;
      const uint q0 = query_element(problem.q, slice.base_q, w, member, at);
      const uint grad_o0 = query_element(problem.grad_o, slice.base_grad_o, w, member, at);
      const uint lse0 = query_element(problem.lse, slice.base_lse, w, member, at);
      const uint delta0 = query_element(problem.lse, slice.base_delta, w, member, at);
      const uint mend0 = query_element(problem.lse, slice.base_mend, w, member, at);

      float s[SCORES];
      float ds[SCORES];
      PRODUCT(s, load4_k, k0, problem.k.seq, 0, rows, load4_q, q0, problem.q.seq, 0, columns,
              problem.k.width)  // S^T = K Q^T
      PRODUCT(ds, load4_v, v0, problem.v.seq, 0, rows, load4_grad_o, grad_o0, problem.grad_o.seq, 0,
              columns, problem.v.width)  // dP^T = V dO^T

      const bool full = columns == int(BC) && rows == int(BR) &&
                        cf_tile_full(VISIBILITY, i0, i0 + columns, j0, j0 + rows);
      [[unroll]] for (uint c = 0; c < COLS; ++c) {
        const uint column = first_col() + c;
        const int i = i0 + int(column);
        const bool inside = int(column) < columns;
        const float lse = inside ? load_lse(lse0 + column * problem.lse.seq) : cf_neg_inf();
        const float D = inside ? work[delta0 + column * problem.lse.seq] : 0.0;
        const float mend = inside ? work[mend0 + column * problem.lse.seq] : 0.0;
        uvec4 block = uvec4(0, 0, 0, 0);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
          if (r % CF_DROPOUT_KEYS == 0) block = dropout_block(bh, uint(i), uint(j0) + first_row() + r);
          const uint n = r * COLS + c;
          const int j = j0 + int(first_row() + r);
          const bool seen = takes_part(
              full || (inside && j < KEY_END && cf_visible(VISIBILITY, i, j)), true, i, j);
          const float p =
              seen ? cf_probability(score_of(s[n], i, j), lse) * mend : 0.0;
          const float z = dropout_factor(block, uint(j));
          ds[n] = raw_gradient(s[n], p, z, ds[n], D);
          s[n] = p * z;
        }
      }
      share_weights(s);
      ACCUMULATE(dv, WIDTH_B, load4_grad_o, grad_o0, problem.grad_o.seq, 0, columns,
                 problem.v.width)  // dV += (P z)^T dO
      share_weights(ds);
      ACCUMULATE(dk, WIDTH_A, load4_q, q0, problem.q.seq, 0, columns,
                 problem.k.width)  // dK += dS^T Q
    }
  }

  if ((slice.carry & CF_CARRY_OUT) != 0) {
#define SUSPEND_DK(row, column, value, count) \
  store4_work(state + row * state_pitch + column, value, count)
#define SUSPEND_DV(row, column, value, count) \
  store4_work(state + row * state_pitch + problem.k.width + column, value, count)
    FOR_EACH(dk, WIDTH_A, rows, problem.k.width, SUSPEND_DK)
    FOR_EACH(dv, WIDTH_B, rows, problem.v.width, SUSPEND_DV)
    return;
  }
  const int written = KEYS_TO_WRITE(j0, rows);
  const uint grad_k0 = key_element(problem.grad_k, slice.base_grad_k, w, j0 - slice.key_begin);
  const uint grad_v0 = key_element(problem.grad_v, slice.base_grad_v, w, j0 - slice.key_begin);
#define STORE_DK(row, column, value, count) \
  store4_grad_k(grad_k0 + row * problem.grad_k.seq + column, value, count)
#define STORE_DV(row, column, value, count) \
  store4_grad_v(grad_v0 + row * problem.grad_v.seq + column, value, count)
  FOR_EACH(dk, WIDTH_A, written, problem.k.width, STORE_DK)
  FOR_EACH(dv, WIDTH_B, written, problem.v.width, STORE_DV)
}
