// SPDX-License-Identifier: MIT
// problem.h: a crossflash_problem that has been checked: strides filled in, causal mask and window
// made one rule, defaults resolved. Backends see only this. All checks stand in problem.cpp.
#pragma once

#include <array>
#include <cstdint>

#include "common/shared/abi.h"
#include "common/status.h"

namespace crossflash {

struct Strides {
  std::int64_t batch, seq, head;  // elements; the innermost is 1
};

// The tensors of a run, in the order of crossflash_args.
enum class TensorId { q, k, v, o, lse, grad_o, grad_q, grad_k, grad_v };
constexpr std::size_t kTensorCount = 9;
constexpr std::array<const char*, kTensorCount> kTensorNames = {
    "q", "k", "v", "o", "lse", "grad_o", "grad_q", "grad_k", "grad_v"};

struct Tensor {
  crossflash_dtype dtype;
  std::int64_t batch, seq, heads, width;  // extents; lse has width 1
  Strides strides;

  bool empty() const { return batch == 0 || seq == 0 || heads == 0; }
  // Elements from the first to one past the last.
  std::int64_t extent() const {
    if (empty()) return 0;
    return (batch - 1) * strides.batch + (seq - 1) * strides.seq + (heads - 1) * strides.head +
           width;
  }
};

struct Problem {
  bool forward, backward;
  bool deterministic;
  crossflash_dtype dtype;
  std::int64_t batch, seq_q, seq_k, heads_q, heads_kv, d, d_v;
  std::array<Tensor, kTensorCount> tensors;
  shared::cf_visibility visibility;
  shared::cf_score score;
  float dropout;
  std::uint32_t drop_threshold;  // of 65536

  const Tensor& tensor(TensorId id) const { return tensors[static_cast<std::size_t>(id)]; }
  std::int64_t group() const { return heads_q / heads_kv; }
  // Multiply-adds count twice; of one dense product of the score's shape with the given width.
  double product_flops(std::int64_t width) const {
    return 2.0 * static_cast<double>(batch * heads_q) * static_cast<double>(seq_q) *
           static_cast<double>(seq_k) * static_cast<double>(width);
  }
};

Status check_problem(const crossflash_problem& in, Problem* out);

// The random state of one run; refuses an offset that does not fit.
Status check_random_state(const Problem& problem, std::uint64_t seed, std::uint64_t offset,
                          shared::cf_dropout* out);

// Strides of a contiguous [batch, seq, heads, width].
crossflash_strides contiguous_strides(std::int64_t seq, std::int64_t heads, std::int64_t width);

}  // namespace crossflash
