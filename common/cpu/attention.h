// SPDX-License-Identifier: MIT
// attention.h: attention on the CPU in f32, tile by tile, as FlashAttention-2 orders it: forward
// and dQ hold a tile of queries and stream keys, dK and dV hold a tile of keys and stream queries.
// No two tasks write the same element and each sum has one order, so results are the same in every
// run.
#pragma once

#include <vector>

#include "common/cpu/pool.h"
#include "common/cpu/tensor_io.h"

namespace crossflash::cpu {

constexpr int kTile = 64;  // queries and keys of a tile; S of a tile is 16 KiB, half of an L1 cache

// What one task works in. "Held" tiles stay during a task, "streamed" ones pass by.
struct Tiles {
  explicit Tiles(const Problem& problem);

  // Rows of q or k (width d), of o, v or their gradients (width d_v); _t is transposed, (width,
  // kTile).
  std::vector<float> held_d, held_v, streamed_d, streamed_d_t, streamed_v, streamed_v_t;
  std::vector<float> sum_d, sum_v;     // (kTile, width): O, dQ, dK, dV
  std::vector<float> s, grad_p, keep;  // (kTile, kTile); keep is dropout's z
};

// One run: the tensors, their random state, the row dots D of backward, and where tiles come from.
struct Run {
  const Problem& problem;
  HostTensor q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  float* lse;    // [batch, heads_q, seq_q]
  float* delta;  // D, like lse
  shared::cf_dropout dropout;
  Pool<Tiles>& tiles;
};

void forward(const Run& run);
void backward(const Run& run);

}  // namespace crossflash::cpu
