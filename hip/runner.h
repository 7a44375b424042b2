// SPDX-License-Identifier: MIT
// runner.h: a HipPlan made runnable on its device. Invariant: a run only enqueues; it allocates
// nothing and waits for nothing, so that a stream may be capturing a graph.
#pragma once

#include <memory>

#include "common/backend.h"
#include "hip/plan.h"
#include "hip/workspace.h"

namespace crossflash::hip {

class HipDevice;

class Runner : public Plan {
 public:
  static Status create(const HipDevice& device, HipPlan plan, std::unique_ptr<Plan>* out);
  ~Runner() override;

  std::uint64_t workspace_bytes(Pass pass) const override { return plan_.workspace(pass); }
  const std::string& describe() const override { return plan_.describe; }
  bool takes_stream() const override { return true; }
  Status run(Pass pass, const RunArgs& args) override;

 private:
  Runner(const HipDevice& device, HipPlan plan) : device_(device), plan_(std::move(plan)) {}
  Status check_buffers(Pass pass, const RunArgs& args) const;
  KernelArguments bind(const RunArgs& args, std::byte* workspace) const;
  Status enqueue(Pass pass, const RunArgs& args, std::byte* workspace, hipStream_t stream) const;

  const HipDevice& device_;
  const HipPlan plan_;
  std::unique_ptr<Workspace> workspace_;  // if a pass needs any
};

}  // namespace crossflash::hip
