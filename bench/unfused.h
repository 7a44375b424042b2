// SPDX-License-Identifier: MIT
// unfused.h: the attention to beat: S = Q K^T, P = softmax(S) and O = P V one after the other, S
// and P stored whole, backward from the stored P. It runs on the device that the fused one runs on
// and makes the same effort in its products.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/problem.h"
#include "common/reference/attention.h"
#include "crossflash/crossflash.hpp"

namespace crossflash::bench {

class Unfused {
 public:
  virtual ~Unfused() = default;
  // Each enqueues its pass and waits for it; backward follows a forward.
  virtual void forward() = 0;
  virtual void backward() = 0;
  // Bytes of device memory that the pass needs beyond inputs and outputs.
  virtual std::uint64_t workspace_bytes(std::uint32_t pass) const = 0;
  // What o, grad_q, grad_k or grad_v holds now, contiguous [batch, seq, heads, width].
  virtual std::vector<float> output(TensorId id) const = 0;
};

// Null if the device's backend has no unfused computation, or none that does this problem: the
// comparison is then left out. A backend adds its own as a row of the table in unfused.cpp.
// The problem must outlive the result.
std::unique_ptr<Unfused> make_unfused(const Device& device, const Problem& problem,
                                      const reference::Inputs& inputs);

std::unique_ptr<Unfused> make_unfused_cpu(const Device& device, const Problem& problem,
                                          const reference::Inputs& inputs);
std::unique_ptr<Unfused> make_unfused_vulkan(const Device& device, const Problem& problem,
                                             const reference::Inputs& inputs);

}  // namespace crossflash::bench
