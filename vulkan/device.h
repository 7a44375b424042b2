// SPDX-License-Identifier: MIT
// device.h: an open Vulkan device as the front end sees it: memory, support queries, plans.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/backend.h"
#include "vulkan/buffer.h"
#include "vulkan/pipeline.h"
#include "vulkan/transfer.h"

namespace crossflash::vulkan {

class VulkanDevice : public Device {
 public:
  // `options` has been checked by the backend but for its limits and variant.
  static Status create(std::shared_ptr<const Instance> instance, DeviceInfo info,
                       const DeviceOptions& options, std::unique_ptr<Device>* out);
  ~VulkanDevice() override;

  const DeviceInfo& info() const override { return info_; }
  std::span<const char* const> variants() const override;
  Status supports(const Problem& problem) const override;
  Status plan(const Problem& problem, std::unique_ptr<Plan>* out) override;

  Status allocate(std::uint64_t bytes, crossflash_buffer* out) override;
  void release(crossflash_buffer buffer) override;
  Status upload(crossflash_buffer destination, const void* source, std::uint64_t bytes) override;
  Status download(void* destination, crossflash_buffer source, std::uint64_t bytes) override;
  Status wait() override;

  Status save_cache(std::vector<std::byte>* out) override;
  Status load_cache(std::span<const std::byte> blob) override;

  // Refuses a stretch that leaves a buffer of ours; buffers of others are the caller's word.
  Status check_stretch(const char* name, crossflash_buffer buffer, std::uint64_t bytes) const;

 private:
  VulkanDevice() = default;
  Status find(const char* name, crossflash_buffer buffer, std::uint64_t bytes,
              const Buffer** out) const;
  Status shared_workspace(std::uint64_t bytes, std::shared_ptr<Buffer>* out);

  DeviceInfo info_;
  std::string variant_;
  Caps caps_;  // the device's, lowered to the pretended limits
  // In this order: what is made from the context goes before it.
  std::unique_ptr<Context> context_;
  std::unique_ptr<Pipelines> pipelines_;
  std::unique_ptr<Transfer> transfer_;
  mutable std::mutex mutex_;
  std::map<void*, std::unique_ptr<Buffer>> buffers_;  // by VkBuffer
  std::shared_ptr<Buffer> workspace_;
};

}  // namespace crossflash::vulkan
