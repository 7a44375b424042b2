// SPDX-License-Identifier: MIT
// sequence.glsl: the rows of the sequence that a workgroup works on, and what its queries see. A
// kernel's grid is that of the longest sequence; past the length of its own a workgroup finds no rows
// and, unless sequences are packed, writes what belongs to padding. Kernels built without options
// know all of it beforehand, and the arena holds no sequences.
#if defined(CF_OPTIONS) && !defined(CF_ARENA)
#define CF_SEQUENCES
#include "../../../common/shared/sequence.h"

#define CF_INDICES(side, binding_number, option)                                               \
  layout(std430, set = 0, binding = binding_number) readonly buffer Rows_##side {              \
    uint rows_##side[];                                                                        \
  };                                                                                           \
  int index_##side(uint n) {                                                                   \
    const uint at = option_skip(option) + n * options.index_words;                             \
    return options.index_words == 2 ? cf_index64(rows_##side[at], rows_##side[at + 1])         \
                                    : int(rows_##side[at]);                                    \
  }                                                                                            \
  cf_rows sequence_##side(uint b, int most) {                                                  \
    if (options.rows_##side == CF_ROWS_ALL) return cf_padded_rows(most, most);                 \
    if (options.rows_##side == CF_ROWS_LENGTHS) return cf_padded_rows(index_##side(b), most);  \
    return cf_packed_rows(index_##side(b), index_##side(b + 1), options.total_##side, most);   \
  }
CF_INDICES(q, CF_BIND_ROWS_Q, 4)
CF_INDICES(k, CF_BIND_ROWS_K, 5)

cf_rows queries;
cf_rows keys;
cf_visibility visibility;

void open_sequence(uint b) {
  queries = sequence_q(b, problem.seq_q);
  keys = sequence_k(b, problem.visibility.seq_k);
  visibility =
      cf_visibility_of(problem.visibility, options.top_left != 0, queries.count, keys.count);
}

#define VISIBILITY visibility
#define SEQ_Q queries.count
#define QUERY_END min(slice.query_end, queries.count)
#define KEY_END min(slice.key_end, keys.count)

// Rows of a tile that the sequence has, and those to write.
#define rows_within(first, end) clamp((end) - (first), 0, int(BR))
#define QUERIES_TO_WRITE(first, rows) \
  (options.rows_q == CF_ROWS_OFFSETS ? (rows) : min(int(BR), slice.query_end - (first)))
#define KEYS_TO_WRITE(first, rows) \
  (options.rows_k == CF_ROWS_OFFSETS ? (rows) : min(int(BR), slice.key_end - (first)))
// Where a loop over what a tile's rows see ends.
int loop_end(int rows, int end) { return rows > 0 ? end : 0; }
#define QUERY_ROW(row) (queries.first + (row))
#define KEY_ROW(row) (keys.first + (row))

#else

void open_sequence(uint b) {}
#define VISIBILITY problem.visibility
#define SEQ_Q problem.seq_q
#define QUERY_END slice.query_end
#define KEY_END slice.key_end
#define rows_within(first, end) min(int(BR), (end) - (first))
#define loop_end(rows, end) (end)
#define QUERIES_TO_WRITE(first, rows) (rows)
#define KEYS_TO_WRITE(first, rows) (rows)
#define QUERY_ROW(row) (row)
#define KEY_ROW(row) (row)

#endif
