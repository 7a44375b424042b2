#version 450
// SPDX-License-Identifier: MIT
// append.comp: rows of new keys or values into the cache, or queries to where they are rotated. A
// workgroup belongs to one row of the queries' tensors; its invocations share out the row's heads,
// each with one pair of runs that turn together, or one run that is moved as it is. A run is an
// element, or two where they are one word in every tensor.
#extension GL_GOOGLE_include_directive : require
#include "../../common/shared/append.h"
#include "../../common/shared/half.h"
#include "../../common/shared/rotary.h"
#include "../../common/shared/sequence.h"

layout(local_size_x_id = CF_SPEC_THREADS) in;
layout(constant_id = CF_SPEC_THREADS) const uint THREADS = 128;
layout(constant_id = CF_SPEC_DTYPE) const uint DTYPE = 0;

layout(push_constant) uniform Append { cf_append append; };
layout(std430, set = 0, binding = CF_BIND_SOURCE) readonly buffer Source { uint source[]; };
layout(std430, set = 0, binding = CF_BIND_TARGET) buffer Target { uint target[]; };
layout(std430, set = 0, binding = CF_BIND_APPEND_ROWS_Q) readonly buffer RowsQ { uint rows_q[]; };
layout(std430, set = 0, binding = CF_BIND_APPEND_ROWS_K) readonly buffer RowsK { uint rows_k[]; };
layout(std430, set = 0, binding = CF_BIND_APPEND_PAGES) readonly buffer Pages { int page_table[]; };
layout(std430, set = 0, binding = CF_BIND_COSINE) readonly buffer Cosine { float cosine[]; };
layout(std430, set = 0, binding = CF_BIND_SINE) readonly buffer Sine { float sine[]; };

int index_q(uint n) {
  const uint at = append.base_rows_q + n * append.index_words;
  return append.index_words == 2 ? cf_index64(rows_q[at], rows_q[at + 1]) : int(rows_q[at]);
}
int index_k(uint n) {
  const uint at = append.base_rows_k + n * append.index_words;
  return append.index_words == 2 ? cf_index64(rows_k[at], rows_k[at + 1]) : int(rows_k[at]);
}

cf_rows queries_of(uint b) {
  if (append.rows_q == CF_ROWS_ALL) return cf_padded_rows(append.seq_q, append.seq_q);
  if (append.rows_q == CF_ROWS_LENGTHS) return cf_padded_rows(index_q(b), append.seq_q);
  return cf_packed_rows(index_q(b), index_q(b + 1), append.total_q, append.seq_q);
}
cf_rows keys_of(uint b) {
  if (append.rows_k == CF_ROWS_ALL) return cf_padded_rows(append.seq_k, append.seq_k);
  if (append.rows_k == CF_ROWS_LENGTHS) return cf_padded_rows(index_k(b), append.seq_k);
  return cf_packed_rows(index_k(b), index_k(b + 1), append.total_k, append.seq_k);
}

// The bits of a run, elements in the order of memory: one word, or the low half of one.
uint load(uint i) {
  if (DTYPE == CF_F32) return source[i];
  const uint word = source[i >> 1];
  return append.run == 2 ? word : (word >> ((i & 1u) * 16u)) & 0xffffu;
}
void store(uint i, uint bits) {
  if (DTYPE == CF_F32) {
    target[i] = bits;
  } else if (append.run == 2) {
    target[i >> 1] = bits;
  } else {  // the word's other half may be another's
    const uint shift = (i & 1u) * 16u;
    atomicAnd(target[i >> 1], ~(0xffffu << shift));
    atomicOr(target[i >> 1], bits << shift);
  }
}

vec2 decode(uint bits) {
  if (DTYPE == CF_F32) return vec2(uintBitsToFloat(bits), 0.0);
  return vec2(cf_decode16(DTYPE, bits & 0xffffu), cf_decode16(DTYPE, bits >> 16));
}
uint encode(vec2 x) {
  if (DTYPE == CF_F32) return floatBitsToUint(x.x);
  return cf_encode16(DTYPE, x.x) | (append.run == 2 ? cf_encode16(DTYPE, x.y) << 16 : 0u);
}

// (x, y) times cos + i sin of angle n.
vec2 turned(float x, float y, uint angles, uint n) {
  const float c = cosine[append.base_cosine + angles + n];
  const float s = sine[append.base_sine + angles + n];
  return vec2(cf_turned_x(x, y, c, s), cf_turned_y(x, y, c, s));
}

void main() {
  const uint pairs = uint(append.rotary) / 2 / append.run;
  const uint units = pairs + (append.width - uint(append.rotary)) / append.run;  // of a head
  const uint chunks = (append.heads * units + THREADS - 1) / THREADS;
  const uint group = append.first_group + gl_WorkGroupID.x;
  const uint n = group % chunks * THREADS + gl_LocalInvocationIndex;
  const uint head = n / units;
  uint unit = n % units;
  const int i = int(group / chunks % uint(append.seq_q));
  const uint b = group / chunks / uint(append.seq_q);
  if (head >= append.heads) return;

  const cf_rows queries = queries_of(b);
  const cf_rows keys = keys_of(b);
  const int position = cf_append_position(i, queries.count, keys.count);
  const bool live = i < queries.count;
  const bool packed_q = append.rows_q == CF_ROWS_OFFSETS;
  const uint row = uint(queries.first + i);
  const uint from = append.base_source + (packed_q ? 0 : b * append.source_batch) +
                    row * append.source_seq + head * append.source_head;
  uint to = append.base_target + head * append.target_head;
  if (append.queries != 0) {
    if (!live && packed_q) return;
    to += (packed_q ? 0 : b * append.target_batch) + row * append.target_seq;
  } else {
    if (!live || position < 0) return;
    if (append.page_size > 0) {
      const uint entry = b * append.pages_of_sequence + uint(position / append.page_size);
      const int page = cf_page(page_table[append.base_page_table + entry], append.pages);
      to += uint(page) * append.target_batch +
            uint(position % append.page_size) * append.target_seq;
    } else {
      to += (append.rows_k == CF_ROWS_OFFSETS ? 0 : b * append.target_batch) +
            uint(keys.first + position) * append.target_seq;
    }
  }

  if (unit >= pairs) {
    const uint x = uint(append.rotary) + (unit - pairs) * append.run;
    store(to + x, live ? load(from + x) : 0u);
    return;
  }
  // Pairs of neighbours lie one after the other in the two runs, else side by side.
  const bool interleaved = append.interleaved != 0;
  unit *= append.run;
  const uint low = uint(cf_rotary_x(int(unit), interleaved));
  const uint high = interleaved ? low + append.run
                                : uint(cf_rotary_y(int(unit), append.rotary, false));
  if (!live) {
    store(to + low, 0u);
    store(to + high, 0u);
    return;
  }
  const vec2 x = decode(load(from + low));
  const vec2 y = decode(load(from + high));
  const uint angles =
      uint(cf_rotary_row(position, append.positions)) * (uint(append.rotary) / 2) + unit;
  if (append.run == 2 && interleaved) {
    store(to + low, encode(turned(x.x, x.y, angles, 0)));
    store(to + high, encode(turned(y.x, y.y, angles, 1)));
  } else {
    const vec2 first = turned(x.x, y.x, angles, 0);
    const vec2 second = append.run == 2 ? turned(x.y, y.y, angles, 1) : vec2(0.0);
    store(to + low, encode(vec2(first.x, second.x)));
    store(to + high, encode(vec2(first.y, second.y)));
  }
}
