// SPDX-License-Identifier: MIT
// schedule.h: what running a plan enqueues, as a sequence of steps. A plan emits the steps into a
// Sink: one that records commands, or one that counts them, which is how a plan knows beforehand
// how many descriptor sets a run needs, and how a test sees a schedule without a device.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/problem.h"

namespace crossflash::vulkan {

enum class KernelId {
  forward,
  backward_dot,
  backward_dkv,
  backward_dq,
  backward_bias,
  backward_sink
};
constexpr std::size_t kKernelCount = 6;
constexpr std::array<const char*, kKernelCount> kKernelNames = {"forward", "row dot", "dK/dV",
                                                                "dQ",      "dBias",   "dSink"};

// Moves a window of a tensor to the arena, or back. It spans no more than a binding can.
struct CopyStep {
  Tensor tensor;
  std::optional<TensorId> id;  // whose buffer; neither: the rows saved in the workspace
  std::optional<OptionId> option;
  bool scatter;  // arena to tensor
  // Elements of the tensor, and words of the arena: the window's corner, and from there to one past
  // its last.
  std::int64_t first, span;
  std::int64_t arena_first, arena_span;
  shared::cf_copy copy;  // the bases and first_group are 0
  std::uint64_t elements;
};

// One dispatch. The slice's bases count from each tensor's first element and, for delta and state,
// from the workspace's first word; its random state is not filled in.
struct ComputeStep {
  KernelId kernel;
  KernelId block;  // whose parameter block: in an arena the row dots are part of another kernel
  shared::cf_slice slice;
  std::uint32_t groups;
  double flops;
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void copy(const CopyStep& step) = 0;
  virtual void compute(const ComputeStep& step) = 0;
  // What comes after sees what came before.
  virtual void barrier() = 0;
};

}  // namespace crossflash::vulkan
