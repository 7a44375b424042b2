// SPDX-License-Identifier: MIT
// The mock's pools, commands and queue. Copies are performed when they are submitted; dispatches
// are only looked at. A submission is in flight until its fence, or the device, is waited for.
#include <algorithm>
#include <cstring>

#include "tests/device/vulkan_mock_objects.h"

namespace crossflash::mock {
namespace {

DeviceObject& device_of(const void* handle) {
  return *const_cast<DeviceObject*>(static_cast<const DeviceObject*>(handle));
}

void finish(DeviceObject& device, std::size_t submissions) {
  for (std::size_t i = 0; i < submissions; ++i) {
    for (Object* object : device.pending[i].uses) --object->in_flight;
    if (auto* fence = dynamic_cast<FenceObject*>(device.pending[i].fence)) fence->signaled = true;
  }
  device.pending.erase(device.pending.begin(),
                       device.pending.begin() + static_cast<std::ptrdiff_t>(submissions));
}

// Everything up to the submission that signals the fence.
void finish_until(DeviceObject& device, const Object* fence) {
  for (std::size_t i = 0; i < device.pending.size(); ++i)
    if (device.pending[i].fence == fence) return finish(device, i + 1);
}

void check_idle(Driver& driver, const Object* object, const char* user) {
  if (object->in_flight > 0)
    driver.complain(fmt::format("{} touches a {} that is in flight", user, object->type()));
}

void destroy_pool(const char* name, const void* pool, const std::vector<const void*>& made) {
  Driver& driver = Driver::current();
  for (const void* child : made) driver.destroy(child, name);
  driver.destroy(pool, name);
}

CommandsObject* recording(VkCommandBuffer commands, const char* user) {
  Driver& driver = Driver::current();
  auto* object = driver.find<CommandsObject>(commands, user);
  if (!object->recording) driver.complain(fmt::format("{} comes outside of recording", user));
  return object;
}

void check_binding(Driver& driver, const VkPhysicalDeviceLimits& limits, CommandsObject& commands,
                   std::uint32_t number, VkDescriptorType type) {
  const auto written = commands.set->written.find(number);
  if (written == commands.set->written.end() || written->second.first != type)
    return driver.complain(fmt::format("a dispatch has nothing at binding {}", number));
  const VkDescriptorBufferInfo& window = written->second.second;
  auto* buffer = driver.find<BufferObject>(window.buffer, "vkCmdDispatch");
  commands.uses.push_back(buffer);
  const bool storage = type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  const VkDeviceSize alignment =
      storage ? limits.minStorageBufferOffsetAlignment : limits.minUniformBufferOffsetAlignment;
  const VkDeviceSize most = storage ? limits.maxStorageBufferRange : limits.maxUniformBufferRange;
  if (buffer->memory == VK_NULL_HANDLE) driver.complain("a dispatch binds a buffer without memory");
  if ((buffer->usage &
       (storage ? VK_BUFFER_USAGE_STORAGE_BUFFER_BIT : VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT)) == 0)
    driver.complain(fmt::format("binding {} is a buffer for another use", number));
  if (window.offset % alignment != 0)
    driver.complain(fmt::format("binding {} has the unaligned offset {}", number, window.offset));
  if (window.range > most)
    driver.complain(fmt::format("binding {} covers {} bytes, over {}", number, window.range, most));
  if (window.range == 0 || window.offset + window.range > buffer->bytes)
    driver.complain(fmt::format("binding {} covers {} + {} of {} bytes", number, window.offset,
                                window.range, buffer->bytes));
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL vkCreateCommandPool(VkDevice, const VkCommandPoolCreateInfo*,
                                                   const VkAllocationCallbacks*,
                                                   VkCommandPool* out) {
  return create<CommandPoolObject>("vkCreateCommandPool", out, [](CommandPoolObject&) {});
}

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateCommandBuffers(VkDevice,
                                                        const VkCommandBufferAllocateInfo* info,
                                                        VkCommandBuffer* out) {
  return create<CommandsObject>("vkAllocateCommandBuffers", out, [info](CommandsObject& made) {
    auto* pool =
        Driver::current().find<CommandPoolObject>(info->commandPool, "vkAllocateCommandBuffers");
    pool->made.push_back(&made);
  });
}

VKAPI_ATTR void VKAPI_CALL vkDestroyCommandPool(VkDevice, VkCommandPool handle,
                                                const VkAllocationCallbacks*) {
  const auto* pool = Driver::current().find<CommandPoolObject>(handle, "vkDestroyCommandPool");
  destroy_pool("vkDestroyCommandPool", pool, pool->made);
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetCommandPool(VkDevice, VkCommandPool handle,
                                                  VkCommandPoolResetFlags) {
  return perform("vkResetCommandPool", [&](Driver& driver) {
    const auto* pool = driver.find<CommandPoolObject>(handle, "vkResetCommandPool");
    for (const void* child : pool->made) {
      auto* commands = driver.find<CommandsObject>(child, "vkResetCommandPool");
      check_idle(driver, commands, "vkResetCommandPool");
      commands->uses.clear();
      commands->copies.clear();
      commands->recording = commands->ready = false;
    }
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkBeginCommandBuffer(VkCommandBuffer handle,
                                                    const VkCommandBufferBeginInfo*) {
  return perform("vkBeginCommandBuffer", [&](Driver& driver) {
    auto* commands = driver.find<CommandsObject>(handle, "vkBeginCommandBuffer");
    check_idle(driver, commands, "vkBeginCommandBuffer");
    commands->recording = true;
    commands->pipeline = nullptr;
    commands->set = nullptr;
    commands->pushed = 0;
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkEndCommandBuffer(VkCommandBuffer handle) {
  return perform("vkEndCommandBuffer", [&](Driver&) {
    auto* commands = recording(handle, "vkEndCommandBuffer");
    commands->recording = false;
    commands->ready = true;
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateDescriptorPool(VkDevice,
                                                      const VkDescriptorPoolCreateInfo* info,
                                                      const VkAllocationCallbacks*,
                                                      VkDescriptorPool* out) {
  return create<DescriptorPoolObject>(
      "vkCreateDescriptorPool", out, [info](DescriptorPoolObject& made) {
        made.sets = info->maxSets;
        for (std::uint32_t i = 0; i < info->poolSizeCount; ++i)
          made.descriptors[info->pPoolSizes[i].type] += info->pPoolSizes[i].descriptorCount;
        made.left = made.descriptors;
      });
}

VKAPI_ATTR void VKAPI_CALL vkDestroyDescriptorPool(VkDevice, VkDescriptorPool handle,
                                                   const VkAllocationCallbacks*) {
  const auto* pool =
      Driver::current().find<DescriptorPoolObject>(handle, "vkDestroyDescriptorPool");
  destroy_pool("vkDestroyDescriptorPool", pool, pool->made);
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetDescriptorPool(VkDevice, VkDescriptorPool handle,
                                                     VkDescriptorPoolResetFlags) {
  return perform("vkResetDescriptorPool", [&](Driver& driver) {
    auto* pool = driver.find<DescriptorPoolObject>(handle, "vkResetDescriptorPool");
    for (const void* set : pool->made) driver.destroy(set, "vkResetDescriptorPool");
    pool->made.clear();
    pool->left = pool->descriptors;
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateDescriptorSets(VkDevice,
                                                        const VkDescriptorSetAllocateInfo* info,
                                                        VkDescriptorSet* out) {
  bool fits = true;
  const VkResult result = create<SetObject>("vkAllocateDescriptorSets", out, [&](SetObject& made) {
    Driver& driver = Driver::current();
    auto* pool =
        driver.find<DescriptorPoolObject>(info->descriptorPool, "vkAllocateDescriptorSets");
    const auto* layout =
        driver.find<SetLayoutObject>(info->pSetLayouts[0], "vkAllocateDescriptorSets");
    made.layout = layout->bindings;
    pool->made.push_back(&made);
    fits = pool->made.size() <= pool->sets;
    for (const auto& [number, type] : made.layout) fits = fits && pool->left[type]-- > 0;
  });
  return fits ? result : VK_ERROR_OUT_OF_POOL_MEMORY;
}

VKAPI_ATTR void VKAPI_CALL vkUpdateDescriptorSets(VkDevice, std::uint32_t count,
                                                  const VkWriteDescriptorSet* writes, std::uint32_t,
                                                  const VkCopyDescriptorSet*) {
  Driver& driver = Driver::current();
  for (std::uint32_t i = 0; i < count; ++i) {
    auto* set = driver.find<SetObject>(writes[i].dstSet, "vkUpdateDescriptorSets");
    check_idle(driver, set, "vkUpdateDescriptorSets");
    driver.find<BufferObject>(writes[i].pBufferInfo->buffer, "vkUpdateDescriptorSets");
    set->written[writes[i].dstBinding] = {writes[i].descriptorType, *writes[i].pBufferInfo};
  }
}

VKAPI_ATTR void VKAPI_CALL vkCmdBindPipeline(VkCommandBuffer handle, VkPipelineBindPoint,
                                             VkPipeline pipeline) {
  auto* commands = recording(handle, "vkCmdBindPipeline");
  auto* bound = Driver::current().find<PipelineObject>(pipeline, "vkCmdBindPipeline");
  commands->pipeline = bound;
  commands->uses.push_back(bound);
}

VKAPI_ATTR void VKAPI_CALL vkCmdBindDescriptorSets(VkCommandBuffer handle, VkPipelineBindPoint,
                                                   VkPipelineLayout layout, std::uint32_t,
                                                   std::uint32_t, const VkDescriptorSet* sets,
                                                   std::uint32_t, const std::uint32_t*) {
  auto* commands = recording(handle, "vkCmdBindDescriptorSets");
  Driver& driver = Driver::current();
  driver.find<PipelineLayoutObject>(layout, "vkCmdBindDescriptorSets");
  commands->set = driver.find<SetObject>(sets[0], "vkCmdBindDescriptorSets");
  commands->uses.push_back(commands->set);
}

VKAPI_ATTR void VKAPI_CALL vkCmdPushConstants(VkCommandBuffer handle, VkPipelineLayout layout,
                                              VkShaderStageFlags, std::uint32_t offset,
                                              std::uint32_t size, const void*) {
  auto* commands = recording(handle, "vkCmdPushConstants");
  Driver& driver = Driver::current();
  const auto* object = driver.find<PipelineLayoutObject>(layout, "vkCmdPushConstants");
  if (offset + size > object->push_bytes)
    driver.complain(fmt::format("{} bytes are pushed where {} fit", size, object->push_bytes));
  commands->pushed = std::max(commands->pushed, offset + size);
}

VKAPI_ATTR void VKAPI_CALL vkCmdDispatch(VkCommandBuffer handle, std::uint32_t x, std::uint32_t y,
                                         std::uint32_t z) {
  Driver& driver = Driver::current();
  const std::lock_guard lock(driver.mutex);
  auto* commands = recording(handle, "vkCmdDispatch");
  const VkPhysicalDeviceLimits& limits = driver.devices.front().limits;
  ++driver.dispatches;
  if (x > limits.maxComputeWorkGroupCount[0] || y != 1 || z != 1 || x == 0)
    driver.complain(fmt::format("a dispatch has {} x {} x {} workgroups", x, y, z));
  if (commands->pipeline == nullptr || commands->set == nullptr)
    return driver.complain("a dispatch comes before its pipeline or its buffers");
  if (commands->pushed < commands->pipeline->push_bytes)
    driver.complain("a dispatch comes before its push constants");
  for (const auto& [number, type] : commands->pipeline->bindings)
    check_binding(driver, limits, *commands, number, type);
}

VKAPI_ATTR void VKAPI_CALL vkCmdPipelineBarrier(VkCommandBuffer handle, VkPipelineStageFlags,
                                                VkPipelineStageFlags, VkDependencyFlags,
                                                std::uint32_t, const VkMemoryBarrier*,
                                                std::uint32_t, const VkBufferMemoryBarrier*,
                                                std::uint32_t, const VkImageMemoryBarrier*) {
  recording(handle, "vkCmdPipelineBarrier");
}

VKAPI_ATTR void VKAPI_CALL vkCmdCopyBuffer(VkCommandBuffer handle, VkBuffer source,
                                           VkBuffer destination, std::uint32_t,
                                           const VkBufferCopy* region) {
  Driver& driver = Driver::current();
  auto* commands = recording(handle, "vkCmdCopyBuffer");
  auto* from = driver.find<BufferObject>(source, "vkCmdCopyBuffer");
  auto* to = driver.find<BufferObject>(destination, "vkCmdCopyBuffer");
  if (region->size == 0 || region->srcOffset + region->size > from->bytes ||
      region->dstOffset + region->size > to->bytes)
    return driver.complain("vkCmdCopyBuffer leaves its buffers");
  commands->uses.insert(commands->uses.end(), {from, to});
  commands->copies.push_back([&driver, from, to, copy = *region] {
    auto* input = driver.find<MemoryObject>(from->memory, "vkQueueSubmit");
    auto* output = driver.find<MemoryObject>(to->memory, "vkQueueSubmit");
    std::memcpy(output->bytes.data() + copy.dstOffset, input->bytes.data() + copy.srcOffset,
                copy.size);
  });
}

VKAPI_ATTR void VKAPI_CALL vkGetDeviceQueue(VkDevice device, std::uint32_t, std::uint32_t,
                                            VkQueue* out) {
  *out = reinterpret_cast<VkQueue>(device);
}

VKAPI_ATTR VkResult VKAPI_CALL vkQueueSubmit(VkQueue queue, std::uint32_t, const VkSubmitInfo* info,
                                             VkFence fence) {
  return perform("vkQueueSubmit", [&](Driver& driver) {
    ++driver.submissions;
    DeviceObject& device = device_of(queue);
    DeviceObject::Submission submission;
    submission.fence = driver.find<FenceObject>(fence, "vkQueueSubmit");
    submission.uses.push_back(submission.fence);
    if (info->commandBufferCount != 0) {
      auto* commands = driver.find<CommandsObject>(info->pCommandBuffers[0], "vkQueueSubmit");
      if (!commands->ready) driver.complain("vkQueueSubmit is given commands that are not ended");
      check_idle(driver, commands, "vkQueueSubmit");
      commands->ready = false;  // recorded to be submitted once
      for (const Object* object : commands->uses)
        if (!driver.objects.contains(object))
          return driver.complain("vkQueueSubmit is given commands that use a dead object");
      for (const auto& copy : commands->copies) copy();
      submission.uses.insert(submission.uses.end(), commands->uses.begin(), commands->uses.end());
      submission.uses.push_back(commands);
    }
    for (Object* object : submission.uses) ++object->in_flight;
    device.pending.push_back(submission);
    if (!driver.lazy) finish(device, device.pending.size());
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetFences(VkDevice, std::uint32_t, const VkFence* fence) {
  return perform("vkResetFences", [&](Driver& driver) {
    auto* object = driver.find<FenceObject>(*fence, "vkResetFences");
    check_idle(driver, object, "vkResetFences");
    object->signaled = false;
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkGetFenceStatus(VkDevice, VkFence fence) {
  bool signaled = false;
  const VkResult result = perform("vkGetFenceStatus", [&](Driver& driver) {
    signaled = driver.find<FenceObject>(fence, "vkGetFenceStatus")->signaled;
  });
  return result == VK_SUCCESS && !signaled ? VK_NOT_READY : result;
}

VKAPI_ATTR VkResult VKAPI_CALL vkWaitForFences(VkDevice device, std::uint32_t, const VkFence* fence,
                                               VkBool32, std::uint64_t) {
  return perform("vkWaitForFences", [&](Driver& driver) {
    auto* object = driver.find<FenceObject>(*fence, "vkWaitForFences");
    finish_until(device_of(device), object);
    if (!object->signaled) driver.complain("vkWaitForFences would wait forever");
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkDeviceWaitIdle(VkDevice device) {
  const VkResult result = perform("vkDeviceWaitIdle", [](Driver&) {});
  // Whatever it says, nothing is in flight after it: a lost device has stopped.
  finish(device_of(device), device_of(device).pending.size());
  return result;
}

}  // namespace crossflash::mock
