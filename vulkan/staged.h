// SPDX-License-Identifier: MIT
// staged.h: what planning a box of the arena (staged.cpp) and walking over boxes (stager.cpp)
// share.
#pragma once

#include "vulkan/plan.h"

namespace crossflash::vulkan {

// Tiles of scores of so many queries and keys that share an element of the bias, and that do not.
struct BiasWalk {
  std::int64_t shared, own;

  BiasWalk(const VulkanPlan& plan, std::int64_t queries, std::int64_t keys) {
    const Tile& tile = plan.kernel(KernelId::backward_bias).tile;
    const ScoreStrides& s = plan.problem.bias.grad_strides;
    const auto tiles = [](std::int64_t rows, std::int64_t of) { return (rows + of - 1) / of; };
    const std::int64_t q = tiles(queries, tile.tile_rows()), k = tiles(keys, tile.tile_cols());
    shared = (s.seq_q == 0 ? q : 1) * (s.seq_k == 0 ? k : 1);
    own = q * k / shared;
  }
};

}  // namespace crossflash::vulkan
