// SPDX-License-Identifier: MIT
// attention.h: the reference, two ways, on contiguous host tensors. `exact_attention` computes in
// double and says what is right. `plain_attention` is the unfused computation in the tensors' own
// type, rounded at each step (S, P, O, dP, dS and every output; sums in f32): the error it makes is
// the yardstick for everybody's. Both are naive on purpose and share no loop with any kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "common/problem.h"

namespace crossflash::reference {

// Contiguous [batch, seq, heads, width]; values are those of the problem's type, held in f32.
// grad_o is needed if problem.backward.
struct Inputs {
  std::vector<float> q, k, v, grad_o;
  shared::cf_dropout dropout{};
};

// Contiguous like the inputs; lse is [batch, heads_q, seq_q]. Gradients only if problem.backward.
struct Outputs {
  std::vector<double> o, lse, grad_q, grad_k, grad_v;
};

// The problem's strides are ignored. Uses every core.
Outputs exact_attention(const Problem& problem, const Inputs& inputs);
Outputs plain_attention(const Problem& problem, const Inputs& inputs);

}  // namespace crossflash::reference
