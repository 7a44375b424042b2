// SPDX-License-Identifier: MIT
#include "vulkan/context.h"

#include <limits>

namespace crossflash::vulkan {

Status Context::create(std::shared_ptr<const Instance> instance, int index,
                       std::unique_ptr<Context>* out) {
  const auto& devices = instance->devices();
  if (index < 0 || static_cast<std::size_t>(index) >= devices.size())
    return unsupported("Vulkan device {} was asked for, but there are {}", index, devices.size());
  std::unique_ptr<Context> context(new Context);
  context->physical_ = &devices[static_cast<std::size_t>(index)];
  if (!context->physical_->reason.empty())
    return unsupported("Vulkan device {} ({}) cannot be used: {}", index, context->physical_->name,
                       context->physical_->reason);
  context->instance_ = std::move(instance);
  CROSSFLASH_TRY(context->create_device());
  *out = std::move(context);
  return {};
}

Context::~Context() {
  if (device_ == VK_NULL_HANDLE) return;
  settle();
  cache_.destroy();
  // Where loading the functions failed half-way, destroying may be what is missing.
  if (functions_.vkDestroyDevice != nullptr) functions_.vkDestroyDevice(device_, nullptr);
}

Status Context::create_device() {
  functions_ = instance_->functions();
  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = physical_->queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  const char* portability = "VK_KHR_portability_subset";
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = physical_->portability ? 1 : 0;
  info.ppEnabledExtensionNames = &portability;
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions_, vkCreateDevice, physical_->handle, &info,
                                        nullptr, &device_));
  if (device_ == VK_NULL_HANDLE)
    return device_error("vkCreateDevice reported success but made nothing");
  CROSSFLASH_TRY(functions_.load_device(device_));
  functions_.vkGetDeviceQueue(device_, physical_->queue_family, 0, &queue_);
  if (queue_ == VK_NULL_HANDLE) return device_error("vkGetDeviceQueue gave no queue");
  return cache_.create(functions_, device_, physical_->properties);
}

Status Context::submit(VkCommandBuffer commands, VkFence fence) {
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = commands != VK_NULL_HANDLE ? 1 : 0;
  info.pCommandBuffers = &commands;
  const std::lock_guard lock(queue_mutex_);
  return CROSSFLASH_VULKAN_CALL(functions_, vkQueueSubmit, queue_, 1, &info, fence);
}

Status Context::wait(VkFence fence) {
  return CROSSFLASH_VULKAN_CALL(functions_, vkWaitForFences, device_, 1, &fence, VK_TRUE,
                                std::numeric_limits<std::uint64_t>::max());
}

Status Context::wait_idle() {
  OwnedFence fence;
  CROSSFLASH_TRY(create_fence(&fence));
  CROSSFLASH_TRY(submit(VK_NULL_HANDLE, fence.get()));
  const Status status = wait(fence.get());
  if (!status.ok()) settle();  // the fence must not be in use when it dies
  return status;
}

void Context::settle() {
  if (functions_.vkDeviceWaitIdle == nullptr) return;
  const std::lock_guard lock(queue_mutex_);
  functions_.vkDeviceWaitIdle(device_);
}

Status Context::create_fence(OwnedFence* out) {
  VkFenceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  return vulkan::create(functions_, device_, functions_.vkCreateFence, "vkCreateFence", info, out);
}

}  // namespace crossflash::vulkan
