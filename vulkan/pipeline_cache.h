// SPDX-License-Identifier: MIT
// pipeline_cache.h: the driver's compiled pipelines, saved to and loaded from one blob. A blob is
// an envelope of ours (mark, size, checksum: drivers trust what they are given) around the driver's
// data, whose own header says which device and driver made it. Reading the cache (compiling) is
// shared, merging into it is exclusive, as Vulkan asks.
#pragma once

#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "vulkan/owned.h"

namespace crossflash::vulkan {

class PipelineCache {
 public:
  Status create(const Functions& functions, VkDevice device,
                const VkPhysicalDeviceProperties& properties);
  void destroy() { cache_ = {}; }

  Status save(std::vector<std::byte>* out) const;
  // Truncated or altered: invalid. Of another device or driver: ignored.
  Status load(std::span<const std::byte> blob);

  VkPipelineCache handle() const { return cache_.get(); }
  // Held while a pipeline is compiled.
  std::shared_lock<std::shared_mutex> use() const { return std::shared_lock(mutex_); }

 private:
  bool ours(std::span<const std::byte> data) const;

  const Functions* functions_ = nullptr;
  VkDevice device_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_{};
  OwnedPipelineCache cache_;
  mutable std::shared_mutex mutex_;
};

}  // namespace crossflash::vulkan
