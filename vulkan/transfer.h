// SPDX-License-Identifier: MIT
// transfer.h: copies between buffers and the host: straight into mapped buffers, else through a
// staging buffer, piece by piece. Sizes and offsets are any byte count. Invariant: a copy comes
// after everything submitted before it and is done when the call returns.
#pragma once

#include <memory>
#include <mutex>

#include "vulkan/buffer.h"

namespace crossflash::vulkan {

// One copy at a time: it owns one staging buffer and one command buffer, made when first needed.
class Transfer {
 public:
  explicit Transfer(Context& context) : context_(context) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Status upload(const Buffer& destination, VkDeviceSize offset, const void* source,
                VkDeviceSize bytes);
  Status download(void* destination, const Buffer& source, VkDeviceSize offset, VkDeviceSize bytes);

 private:
  Status prepare(VkDeviceSize bytes);
  Status copy(VkBuffer source, VkBuffer destination, const VkBufferCopy& region);

  Context& context_;
  std::mutex mutex_;
  std::unique_ptr<Buffer> staging_;
  OwnedFence fence_;
  OwnedCommandPool pool_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

}  // namespace crossflash::vulkan
