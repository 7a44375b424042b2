#version 450
// SPDX-License-Identifier: MIT
// backward_bias.comp: dBias = dS, summed over the axes that share an element. A workgroup owns a tile
// of the gradient, or the one row, column or number that stands for a shared axis, and walks over
// the tiles of dS that share it: all batches, query heads, tiles of queries and of keys along the
// axes of stride 0. No atomics: each sum has one owner and one order. Long walks are cut into
// dispatches that hand the sums on through the state. dQ has left the factors that mend P. In the
// arena there is one head of one sequence.
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

#ifdef CF_ARENA
// The gradient's window in the arena is the state, in f32: boxes add to it.
const uint HEADS = 1;
void store_grad_bias(uint i, float x) {
  const uint at = option_slice.arena + options.arena_grad_bias + i;
  work[at] = x + ((slice.carry & CF_CARRY_IN) != 0 ? work[at] : 0.0);
}
#else
#define HEADS problem.heads_q
layout(std430, set = 0, binding = CF_BIND_GRAD_BIAS) buffer GradBias { uint grad_bias[]; };
void store_grad_bias(uint at, float x) {
  const uint i = option_skip(8) + at;
  if (options.bias_dtype == CF_F32) {
    grad_bias[i] = floatBitsToUint(x);
  } else {
    const uint shift = (i & 1u) * 16u;
    atomicAnd(grad_bias[i >> 1], ~(0xffffu << shift));
    atomicOr(grad_bias[i >> 1], cf_encode16(options.bias_dtype, x) << shift);
  }
}
#endif

// Coordinates (key tile, query tile, query head, batch), keys fastest.
uvec4 coordinates(uint n, uvec4 counts) {
  uvec4 at;
  at.x = n % counts.x;
  n /= counts.x;
  at.y = n % counts.y;
  n /= counts.y;
  at.z = n % counts.z;
  at.w = n / counts.z;
  return at;
}

float sums[SCORES];  // of dS

void add_tile(uvec4 at) {
  Item w;
  w.batch = at.w;
  w.head = at.z / problem.group;
  w.member = at.z % problem.group;
  open_sequence(w.batch);
  open_head(w, w.member);
  const uint bh = flat_head(w, w.member);
  const int i0 = slice.query_begin + int(at.y * BR);
  const int j0 = slice.key_begin + int(at.x * BC);
  const int rows = rows_within(i0, QUERY_END);
  const int columns = min(KEY_END - j0, int(BC));
  if (rows <= 0 || columns <= 0 || cf_keys_begin(VISIBILITY, i0) >= j0 + columns ||
      cf_keys_end(VISIBILITY, i0 + rows) <= j0)
    return;
  if (!tile_takes_part(i0, i0 + rows, j0, j0 + columns)) return;

  const int row0 = i0 - slice.query_begin;
  const uint q0 = query_element(problem.q, slice.base_q, w, w.member, row0);
  const uint grad_o0 = query_element(problem.grad_o, slice.base_grad_o, w, w.member, row0);
  const uint k0 = key_element(problem.k, slice.base_k, w, j0 - slice.key_begin);
  const uint v0 = key_element(problem.v, slice.base_v, w, j0 - slice.key_begin);
  const uint lse0 = query_element(problem.lse, slice.base_lse, w, w.member, row0);
  const uint delta0 = query_element(problem.lse, slice.base_delta, w, w.member, row0);
  const uint mend0 = query_element(problem.lse, slice.base_mend, w, w.member, row0);

  float s[SCORES];
  float dp[SCORES];
  PRODUCT(s, load4_q, q0, problem.q.seq, 0, rows, load4_k, k0, problem.k.seq, 0, columns,
          problem.q.width)  // S = Q K^T
  PRODUCT(dp, load4_grad_o, grad_o0, problem.grad_o.seq, 0, rows, load4_v, v0, problem.v.seq, 0,
          columns, problem.v.width)  // dP = dO V^T
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    const uint row = first_row() + r;
    const int i = i0 + int(row);
    const bool inside = int(row) < rows;
    const float lse = inside ? load_lse(lse0 + row * problem.lse.seq) : cf_neg_inf();
    const float D = inside ? work[delta0 + row * problem.lse.seq] : 0.0;
    const float mend = inside ? work[mend0 + row * problem.lse.seq] : 0.0;
    const uvec4 block = dropout_block(bh, uint(i), uint(j0) + first_col());
    [[unroll]] for (uint c = 0; c < COLS; ++c) {
      const uint n = r * COLS + c;
      const int j = j0 + int(first_col() + c);
      const bool seen = takes_part(
          inside && j < j0 + columns && cf_visible(VISIBILITY, i, j), inside, i, j);
      const float p = seen ? cf_probability(score_of(s[n], i, j), lse) * mend : 0.0;
      sums[n] += score_gradient(p, dropout_factor(block, uint(j)), dp[n], D);
    }
  }
}

// Each row's sum over the keys to its first column.
void sum_rows() {
  float x[ROWS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    x[r] = 0.0;
    [[unroll]] for (uint c = 0; c < COLS; ++c) x[r] += sums[r * COLS + c];
  }
  reduce_rows(x, true);
  [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r * COLS] = x[r];
}

// Each column's sum over the queries to its first row.
void sum_columns() {
  barrier();
  [[unroll]] for (uint c = 0; c < COLS; c += 4) {
    vec4 x = vec4(0.0);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      const uint n = r * COLS + c;
      x += vec4(sums[n], sums[n + 1], sums[n + 2], sums[n + 3]);
    }
    weights[(thread_row() * BC + first_col() + c) / 4] = x;
  }
  barrier();
  [[unroll]] for (uint c = 0; c < COLS; c += 4) {
    vec4 x = vec4(0.0);
    for (uint r = 0; r < ROW_THREADS; ++r) x += weights[(r * BC + first_col() + c) / 4];
    sums[c] = x.x;
    sums[c + 1] = x.y;
    sums[c + 2] = x.z;
    sums[c + 3] = x.w;
  }
}

void main() {
  const cf_score_strides g = options.grad_bias;
  const uint query_count = uint(slice.query_end - slice.query_begin);
  const uint key_count = uint(slice.key_end - slice.key_begin);
  const uvec4 all =
      uvec4((key_count + BC - 1) / BC, (query_count + BR - 1) / BR, HEADS, options.batch);
  const bvec4 own = notEqual(uvec4(g.seq_k, g.seq_q, g.head, g.batch), uvec4(0));
  const uvec4 at = coordinates(slice.first_group + gl_WorkGroupID.x, mix(uvec4(1), all, own));
#ifdef CF_ARENA
  const bool resumes = false;
  const bool suspends = false;
#else
  const bool resumes = (slice.carry & CF_CARRY_IN) != 0;
  const bool suspends = (slice.carry & CF_CARRY_OUT) != 0;
#endif
  const uint state = slice.base_state + gl_WorkGroupID.x * BR * BC + gl_LocalInvocationIndex;

  open_random();
  [[unroll]] for (uint n = 0; n < SCORES; ++n) sums[n] = resumes ? work[state + n * THREADS] : 0.0;
  for (uint n = slice.walk_begin; n < slice.walk_begin + slice.group_count; ++n)
    add_tile(at + coordinates(n, mix(all, uvec4(1), own)));
  if (suspends) {
    [[unroll]] for (uint n = 0; n < SCORES; ++n) work[state + n * THREADS] = sums[n];
    return;
  }

  if (!own.x) sum_rows();
  if (!own.y) sum_columns();
  const uint corner = at.w * g.batch + at.z * g.head;
  [[dont_unroll]] for (uint x = 0; x < SCORES; ++x) {
    const uint row = first_row() + x / COLS;
    const uint column = first_col() + x % COLS;
    const uint i = at.y * BR + row;
    const uint j = at.x * BC + column;
    const bool mine = (own.y ? i < query_count : row == 0) && (own.x ? j < key_count : column == 0);
    float value = 0.0;
    [[unroll]] for (uint n = 0; n < SCORES; ++n)
      if (n == x) value = sums[n];
    if (mine) store_grad_bias(corner + i * g.seq_q + j * g.seq_k, value);
  }
}
