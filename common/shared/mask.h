// SPDX-License-Identifier: MIT
// mask.h: which keys a query may see; for one element, and as ranges for a tile of queries or keys.
// One rule covers full, causal (window_right 0), sliding window and both causal corners (diagonal).
// Indices stay below 2^30, windows are clamped to that, so that no sum here overflows.
#ifndef CROSSFLASH_SHARED_MASK_H
#define CROSSFLASH_SHARED_MASK_H
#include "abi.h"
CF_BEGIN

CF_FN int cf_clamp(int x, int lo, int hi) { return x < lo ? lo : (x > hi ? hi : x); }

CF_FN bool cf_visible(cf_visibility p, int i, int j) {
  const int at = i + p.diagonal;
  return j >= 0 && j < p.seq_k && (p.window_left < 0 || j >= at - p.window_left) &&
         (p.window_right < 0 || j <= at + p.window_right);
}

// The smallest half-open key range with every key that queries [i0, i1) see; empty: begin >= end.
CF_FN int cf_keys_begin(cf_visibility p, int i0) {
  return p.window_left < 0 ? 0 : cf_clamp(i0 + p.diagonal - p.window_left, 0, p.seq_k);
}
CF_FN int cf_keys_end(cf_visibility p, int i1) {
  return p.window_right < 0 ? p.seq_k : cf_clamp(i1 + p.diagonal + p.window_right, 0, p.seq_k);
}

// The smallest half-open query range of [0, seq_q) with every query that sees one of keys [j0, j1).
CF_FN int cf_queries_begin(cf_visibility p, int j0, int seq_q) {
  return p.window_right < 0 ? 0 : cf_clamp(j0 - p.diagonal - p.window_right, 0, seq_q);
}
CF_FN int cf_queries_end(cf_visibility p, int j1, int seq_q) {
  return p.window_left < 0 ? seq_q : cf_clamp(j1 - p.diagonal + p.window_left, 0, seq_q);
}

// Whether queries [i0, i1) see every one of keys [j0, j1): then no element needs a test.
CF_FN bool cf_tile_full(cf_visibility p, int i0, int i1, int j0, int j1) {
  return j1 <= p.seq_k && (p.window_left < 0 || j0 >= i1 - 1 + p.diagonal - p.window_left) &&
         (p.window_right < 0 || j1 - 1 <= i0 + p.diagonal + p.window_right);
}

CF_END
#endif
