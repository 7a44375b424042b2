// SPDX-License-Identifier: MIT
// sequence.h: where a sequence of the batch lies and how long it is, from lengths or offsets that
// only the device can read. Nobody has checked them: what is out of range is clamped, so that no
// row outside of the tensors is ever touched.
#ifndef CROSSFLASH_SHARED_SEQUENCE_H
#define CROSSFLASH_SHARED_SEQUENCE_H
#include "abi.h"
CF_BEGIN

// Rows [first, first + count) of the tensors; `first` counts within the batch's own rows unless
// sequences are packed.
struct cf_rows {
  int first;
  int count;
};

// The nearest int to a 64-bit index that comes as two words; negative: 0.
CF_FN int cf_index64(uint low, uint high) {
  if ((high & 0x80000000u) != 0u) return 0;
  return high != 0u || low > 0x7fffffffu ? 0x7fffffff : int(low);
}

// A padded sequence of `length` rows where there is place for `most`.
CF_FN cf_rows cf_padded_rows(int length, int most) {
  cf_rows r;
  r.first = 0;
  r.count = length < 0 ? 0 : (length < most ? length : most);
  return r;
}

// The packed sequence from row `from` to `to` of `total`, at most `most` of them.
CF_FN cf_rows cf_packed_rows(int from, int to, int total, int most) {
  cf_rows r;
  r.first = from < 0 ? 0 : (from < total ? from : total);
  const int end = to < r.first ? r.first : (to < total ? to : total);
  r.count = end - r.first < most ? end - r.first : most;
  return r;
}

// What the queries of a sequence of these lengths see; `p` is that of the longest.
CF_FN cf_visibility cf_visibility_of(cf_visibility p, bool top_left, int seq_q, int seq_k) {
  p.seq_k = seq_k;
  p.diagonal = top_left ? 0 : seq_k - seq_q;
  return p;
}

// Page of key j in a sequence's table, kept inside the pool.
CF_FN int cf_page(int page, int pages) { return page < 0 ? 0 : (page < pages ? page : pages - 1); }

CF_END
#endif
