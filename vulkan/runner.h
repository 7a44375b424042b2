// SPDX-License-Identifier: MIT
// runner.h: a VulkanPlan made runnable: its pipelines compiled, its parameter blocks uploaded, its
// recordings sized. Invariant: a run allocates nothing and waits for nothing once a recording is
// free.
#pragma once

#include <memory>

#include "common/backend.h"
#include "vulkan/append.h"
#include "vulkan/buffer.h"
#include "vulkan/pipeline.h"
#include "vulkan/plan.h"
#include "vulkan/recording_pool.h"
#include "vulkan/transfer.h"

namespace crossflash::vulkan {

class VulkanDevice;

class Runner : public Plan {
 public:
  // `workspace` has at least the plan's bytes; it serves the runs that bring none. Runs on the
  // queue are ordered, so that all plans of a device may share it.
  static Status create(Context& context, const VulkanDevice& device, Pipelines& pipelines,
                       Transfer& transfer, VulkanPlan plan, std::shared_ptr<Buffer> workspace,
                       std::unique_ptr<Plan>* out);

  std::uint64_t workspace_bytes(Pass pass) const override { return plan_.workspace(pass); }
  const std::string& describe() const override { return plan_.describe; }
  Status run(Pass pass, const RunArgs& args) override;

 private:
  friend class Recorder;
  Runner(Context& context, const VulkanDevice& device, VulkanPlan plan,
         std::shared_ptr<Buffer> workspace)
      : context_(context),
        device_(device),
        plan_(std::move(plan)),
        workspace_(std::move(workspace)) {}
  Status check_buffers(Pass pass, const RunArgs& args) const;
  Status compile(Pipelines& pipelines);
  Status upload_blocks(Transfer& transfer);

  Context& context_;
  const VulkanDevice& device_;
  const VulkanPlan plan_;
  std::shared_ptr<Buffer> workspace_;
  std::unique_ptr<Buffer> blocks_;  // a parameter block for each kernel
  VkDeviceSize block_pitch_ = 0;
  std::array<const Pipeline*, kKernelCount> attention_{};
  // By element type and direction, where the plan is staged.
  std::array<std::array<const Pipeline*, 2>, 3> copy_{};
  std::array<std::unique_ptr<RecordingPool>, 2> recordings_;  // by Pass
  std::unique_ptr<Appender> append_;                          // if the problem appends
};

}  // namespace crossflash::vulkan
