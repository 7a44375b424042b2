// SPDX-License-Identifier: MIT
// rotary.h: where a row that is appended stands, and how rotary embedding turns it (Su et al. 2021,
// RoFormer, equation 34): pair n of a row's elements, as the real and imaginary part of a number,
// times cos + i sin of the angle that the tables hold for the row's position.
#ifndef CROSSFLASH_SHARED_ROTARY_H
#define CROSSFLASH_SHARED_ROTARY_H
#include "lang.h"
CF_BEGIN

// The key at which new row i of a sequence is put; negative: there is no place for it.
CF_FN int cf_append_position(int i, int seq_q, int seq_k) { return i + seq_k - seq_q; }

// The tables' row for a position.
CF_FN int cf_rotary_row(int position, int positions) {
  return position < 0 ? 0 : (position < positions ? position : positions - 1);
}

// The two elements of pair n.
CF_FN int cf_rotary_x(int n, bool interleaved) { return interleaved ? 2 * n : n; }
CF_FN int cf_rotary_y(int n, int rotary, bool interleaved) {
  return interleaved ? 2 * n + 1 : n + rotary / 2;
}

CF_FN float cf_turned_x(float x, float y, float cosine, float sine) { return x * cosine - y * sine; }
CF_FN float cf_turned_y(float x, float y, float cosine, float sine) { return y * cosine + x * sine; }

CF_END
#endif
