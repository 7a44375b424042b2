// SPDX-License-Identifier: MIT
// sequence.h: one sequence of the batch: where its rows lie, what its queries see; its heads; and
// the tasks, one for each tile of each head. Tiles are counted by the longest sequence.
#pragma once

#include <algorithm>

#include "common/cpu/attention.h"
#include "common/parallel.h"

namespace crossflash::cpu {

struct Sequence {
  std::int64_t b;
  Rows queries, keys;
  shared::cf_visibility visibility;

  Sequence(const Run& run, std::int64_t b);
};

// A head of a sequence's queries, with the head of keys it looks at.
struct Head {
  Sequence sequence;
  std::int64_t h, h_kv, flat;
  std::int64_t row;  // of lse, delta and mend: where query 0 has its number

  Head(const Run& run, const Sequence& sequence, std::int64_t h);
  Head(const Run& run, std::int64_t n)
      : Head(run, Sequence(run, n / run.problem.heads_q), n % run.problem.heads_q) {}
};

inline std::int64_t tiles_of(std::int64_t length) { return (length + kTile - 1) / kTile; }

// task(head, begin, end) for each tile of each of `heads` heads of `length` rows.
template <typename Task>
void for_each_tile(std::int64_t heads, std::int64_t length, const Task& task) {
  const std::int64_t tiles = tiles_of(length);
  parallel_for(heads * tiles, [&](std::int64_t n) {
    const std::int64_t begin = n % tiles * kTile;
    task(n / tiles, static_cast<int>(begin), static_cast<int>(std::min(begin + kTile, length)));
  });
}

// A tile's rows, some of which may lie past the sequence's end: those are padding, or not there.
struct Span {
  int begin, live, end;  // [begin, live) are the sequence's, [live, end) are padding

  Span(crossflash_rows kind, const Rows& rows, int first, int last)
      : begin(first),
        live(std::clamp(rows.count, first, last)),
        end(kind == CROSSFLASH_ROWS_LENGTHS ? last : live) {}
};

}  // namespace crossflash::cpu
