// SPDX-License-Identifier: MIT
// tile_shape.h: what an architecture's tile table says for one pass, element size and head size.
#pragma once

namespace crossflash::hip {

struct TileShape {
  int rows, columns;  // rows a block owns, columns it walks in
  int waves;          // of the block
  int blocks;         // at least this many on one multiprocessor: bounds the registers of a thread
  int stages = 1;     // copies of the walked tiles in shared memory
  int wave_columns = 1;  // waves side by side over the columns (grad_kv, grad_all)
  int part = 0;          // columns that a wave scores at a time (grad_all); 0: all its own
  int sum_rows = 0;      // of dQ in blocks of 16 that a wave sums at a time (grad_all)
  int sum_columns = 0;
  // P and dS reach the second product through shared memory, not from lane to lane.
  bool shared_weights = false;
};

}  // namespace crossflash::hip
