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
// grad_o is needed if problem.backward, the others if the problem's options ask for them: bias and
// mask have option_extent() elements at the problem's strides, and rows_q, rows_k are lengths or
// offsets.
struct Inputs {
  std::vector<float> q, k, v, grad_o;
  std::vector<float> bias, alibi, sink;
  std::vector<shared::uint> mask;
  std::vector<std::int64_t> rows_q, rows_k;
  std::vector<std::int32_t> page_table;
  shared::cf_dropout dropout{};
  std::vector<float> new_k, new_v, cosine, sine;  // of append.h
};

// Rows of a sequence in the tensors of its side, as flat rows (batch * seq + row) of a contiguous
// tensor.
struct SideRows {
  std::int64_t first = 0, count = 0;
  const std::int32_t* pages = nullptr;  // of paged keys
  std::int64_t page_size = 0;

  std::int64_t flat(std::int64_t row) const {
    return pages == nullptr ? first + row : pages[row / page_size] * page_size + row % page_size;
  }
};
SideRows query_rows(const Problem& problem, const Inputs& inputs, std::int64_t b);
SideRows key_rows(const Problem& problem, const Inputs& inputs, std::int64_t b);

// Contiguous like the inputs; lse is [batch, heads_q, seq_q], or [heads_q, total_q]. Gradients only
// if problem.backward; grad_bias and grad_sink if asked for. Rows of no sequence hold 0 (lse -inf).
struct Outputs {
  std::vector<double> o, lse, grad_q, grad_k, grad_v, grad_bias, grad_sink;
};

// The problem's strides are ignored. Uses every core.
Outputs exact_attention(const Problem& problem, const Inputs& inputs);
Outputs plain_attention(const Problem& problem, const Inputs& inputs);

}  // namespace crossflash::reference
