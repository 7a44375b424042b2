// SPDX-License-Identifier: MIT
// attention.h: attention on the CPU in f32, tile by tile, as FlashAttention-2 orders it: forward
// and dQ hold a tile of queries and stream keys, dK and dV hold a tile of keys and stream queries.
// No two tasks write the same element and each sum has one order, so results are the same in every
// run.
#pragma once

#include "common/cpu/pool.h"
#include "common/cpu/tensor_io.h"
#include "common/cpu/tiles.h"

namespace crossflash::cpu {

// What the problem's options bring; whoever looks at one has asked the problem whether it is there.
struct Options {
  const std::byte* bias = nullptr;
  const float* alibi = nullptr;
  const float* sink = nullptr;
  const shared::uint* mask = nullptr;
  const std::byte* rows_q = nullptr;
  const std::byte* rows_k = nullptr;
  const std::int32_t* page_table = nullptr;
  std::byte* grad_bias = nullptr;
  float* grad_sink = nullptr;
};

// One run: the tensors, their random state, backward's numbers for each row, and where tiles come
// from.
struct Run {
  const Problem& problem;
  HostTensor q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  Options options;
  float* lse;    // [batch, heads_q, seq_q], or [heads_q, total_q]
  float* delta;  // D, like lse
  float* mend;   // cf_mend_row's factors, like lse
  shared::cf_dropout dropout;
  Pool<Tiles>& tiles;
};

void forward(const Run& run);
void backward(const Run& run);

}  // namespace crossflash::cpu
