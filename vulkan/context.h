// SPDX-License-Identifier: MIT
// context.h: an open device with one compute queue and its pipeline cache. Everything made from a
// Context must be gone before it. Invariant: the queue is touched under its mutex only; waiting is
// for fences and does not hold it.
#pragma once

#include <memory>
#include <mutex>

#include "vulkan/instance.h"
#include "vulkan/owned.h"
#include "vulkan/pipeline_cache.h"

namespace crossflash::vulkan {

class Context {
 public:
  // `index` counts Instance::devices().
  static Status create(std::shared_ptr<const Instance> instance, int index,
                       std::unique_ptr<Context>* out);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const PhysicalDevice& physical() const { return *physical_; }
  const Functions& functions() const { return functions_; }
  VkDevice device() const { return device_; }
  PipelineCache& cache() { return cache_; }

  // `commands` may be null: then `fence` signals once everything submitted before is done.
  Status submit(VkCommandBuffer commands, VkFence fence);
  Status wait(VkFence fence);
  // Until everything submitted before is done; reports device loss.
  Status wait_idle();
  // For destructors: whatever happened, the device does not use our objects after this.
  void settle();

  Status create_fence(OwnedFence* out);

 private:
  Context() = default;
  Status create_device();

  std::shared_ptr<const Instance> instance_;
  const PhysicalDevice* physical_ = nullptr;
  Functions functions_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
  PipelineCache cache_;
};

}  // namespace crossflash::vulkan
