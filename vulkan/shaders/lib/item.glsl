// SPDX-License-Identifier: MIT
// item.glsl: which part of the problem a workgroup does. The box of a dispatch is cut into
// (batch, key head, query head of the group, tile), tile fastest; forward and dQ tile the queries,
// dK/dV the keys, looping over the query heads of the group.
#include "sequence.glsl"

struct Item {
  uint batch;    // within the box, like the next three
  uint head;     // key head
  uint member;   // query head of the group
  int tile_begin;  // first row of the tile, an index of the sequence
  uint row;      // rows of state before this tile's first
};

Item find_item(int begin, int end, uint members, uint tile_rows) {
  const uint rows = uint(end - begin);
  const uint tiles = max((rows + tile_rows - 1) / tile_rows, 1u);
  uint n = slice.first_group + gl_WorkGroupID.x;
  Item w;
  const uint tile = n % tiles;
  n /= tiles;
  w.row = n * rows + tile * tile_rows;
  w.tile_begin = begin + int(tile * tile_rows);
  w.member = n % members;
  n /= members;
  w.head = n % slice.heads;
  w.batch = n / slice.heads;
  open_sequence(slice.batch_begin + w.batch);
  return w;
}

// Element of row `row` (counted from the box's first) of a query-side or key-side tensor.
uint query_element(cf_tensor t, uint base, Item w, uint member, int row) {
  return base + w.batch * t.batch + (w.head * problem.head_step + member) * t.head +
         uint(QUERY_ROW(row)) * t.seq;
}
uint key_element(cf_tensor t, uint base, Item w, int row) {
  return base + w.batch * t.batch + w.head * t.head + uint(KEY_ROW(row)) * t.seq;
}

// Flat (batch, query head) of the whole problem, as dropout counts it.
uint flat_head(Item w, uint member) {
  return (slice.batch_begin + w.batch) * problem.heads_q +
         (slice.head_begin + w.head) * problem.group + slice.group_begin + member;
}
