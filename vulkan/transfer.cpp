// SPDX-License-Identifier: MIT
#include "vulkan/transfer.h"

#include <algorithm>
#include <cstring>

#include "vulkan/commands.h"

namespace crossflash::vulkan {
namespace {

constexpr VkDeviceSize kStagingBytes = VkDeviceSize{64} << 20;

Status check_range(const Buffer& buffer, VkDeviceSize offset, VkDeviceSize bytes) {
  if (offset <= buffer.bytes() && bytes <= buffer.bytes() - offset) return {};
  return invalid("a copy of {} bytes at offset {} exceeds the buffer's {} bytes", bytes, offset,
                 buffer.bytes());
}

}  // namespace

Status Transfer::upload(const Buffer& destination, VkDeviceSize offset, const void* source,
                        VkDeviceSize bytes) {
  CROSSFLASH_TRY(check_range(destination, offset, bytes));
  if (bytes == 0) return {};
  if (destination.mapped() != nullptr) {
    CROSSFLASH_TRY(context_.wait_idle());
    std::memcpy(destination.mapped() + offset, source, bytes);
    return {};
  }
  const std::lock_guard lock(mutex_);
  CROSSFLASH_TRY(prepare(bytes));
  const auto* from = static_cast<const std::byte*>(source);
  for (VkDeviceSize done = 0; done < bytes;) {
    const VkDeviceSize piece = std::min(bytes - done, staging_->bytes());
    std::memcpy(staging_->mapped(), from + done, piece);
    CROSSFLASH_TRY(copy(staging_->handle(), destination.handle(), {0, offset + done, piece}));
    done += piece;
  }
  return {};
}

Status Transfer::download(void* destination, const Buffer& source, VkDeviceSize offset,
                          VkDeviceSize bytes) {
  CROSSFLASH_TRY(check_range(source, offset, bytes));
  if (bytes == 0) return {};
  if (source.mapped() != nullptr) {
    CROSSFLASH_TRY(context_.wait_idle());
    std::memcpy(destination, source.mapped() + offset, bytes);
    return {};
  }
  const std::lock_guard lock(mutex_);
  CROSSFLASH_TRY(prepare(bytes));
  auto* to = static_cast<std::byte*>(destination);
  for (VkDeviceSize done = 0; done < bytes;) {
    const VkDeviceSize piece = std::min(bytes - done, staging_->bytes());
    CROSSFLASH_TRY(copy(source.handle(), staging_->handle(), {offset + done, 0, piece}));
    std::memcpy(to + done, staging_->mapped(), piece);
    done += piece;
  }
  return {};
}

Status Transfer::prepare(VkDeviceSize bytes) {
  if (commands_ == VK_NULL_HANDLE) {
    CROSSFLASH_TRY(context_.create_fence(&fence_));
    CROSSFLASH_TRY(create_commands(context_, &pool_, &commands_));
  }
  const VkDeviceSize wanted = std::min(bytes, kStagingBytes);
  if (staging_ != nullptr && staging_->bytes() >= wanted) return {};
  staging_.reset();
  return Buffer::create(context_, wanted, Buffer::Kind::staging, &staging_);
}

Status Transfer::copy(VkBuffer source, VkBuffer destination, const VkBufferCopy& region) {
  const Functions& functions = context_.functions();
  CROSSFLASH_TRY(begin_commands(context_, pool_.get(), commands_));
  full_barrier(functions, commands_);
  functions.vkCmdCopyBuffer(commands_, source, destination, 1, &region);
  full_barrier(functions, commands_);
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions, vkEndCommandBuffer, commands_));
  const VkFence fence = fence_.get();
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions, vkResetFences, context_.device(), 1, &fence));
  CROSSFLASH_TRY(context_.submit(commands_, fence));
  const Status status = context_.wait(fence);
  if (!status.ok()) context_.settle();
  return status;
}

}  // namespace crossflash::vulkan
