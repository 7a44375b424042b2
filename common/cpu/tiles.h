// SPDX-License-Identifier: MIT
// tiles.h: what one task works in. "Held" tiles stay during a task, "streamed" ones pass by.
#pragma once

#include <vector>

#include "common/problem.h"

namespace crossflash::cpu {

constexpr int kTile = 64;  // queries and keys of a tile; S of a tile is 16 KiB, half of an L1 cache

// Whether the problem adds to scores: bias, ALiBi, or -inf where the mask has no bit.
inline bool adds_to_scores(const Problem& p) {
  return p.has(shared::CF_BIAS | shared::CF_ALIBI | shared::CF_MASK);
}

struct Tiles {
  // Rows of q or k (width d), of o, v or their gradients (width d_v); _t is transposed, (width,
  // kTile).
  std::vector<float> held_d, held_v, streamed_d, streamed_d_t, streamed_v, streamed_v_t;
  std::vector<float> sum_d, sum_v;     // (kTile, width): O, dQ, dK, dV
  std::vector<float> s, grad_p, keep;  // (kTile, kTile); keep is dropout's z
  std::vector<float> added;            // (kTile, kTile), if the problem adds to scores
  std::vector<double> grad_bias;       // (kTile, kTile), if asked for

  explicit Tiles(const Problem& problem) {
    constexpr std::size_t kScores = kTile * kTile;
    const auto d = static_cast<std::size_t>(kTile * problem.d);
    const auto d_v = static_cast<std::size_t>(kTile * problem.d_v);
    for (auto* tile : {&held_d, &streamed_d, &streamed_d_t, &sum_d}) tile->resize(d);
    for (auto* tile : {&held_v, &streamed_v, &streamed_v_t, &sum_v}) tile->resize(d_v);
    for (auto* tile : {&s, &grad_p, &keep}) tile->resize(kScores);
    if (adds_to_scores(problem)) added.resize(kScores);
    if (problem.bias.gradient) grad_bias.resize(kScores);
  }
};

}  // namespace crossflash::cpu
