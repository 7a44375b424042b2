// SPDX-License-Identifier: MIT
#include "vulkan/commands.h"

namespace crossflash::vulkan {
namespace {

void barrier(const Functions& functions, VkCommandBuffer commands, VkPipelineStageFlags source,
             VkAccessFlags written, VkPipelineStageFlags destination, VkAccessFlags visible) {
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = written;
  memory.dstAccessMask = visible;
  functions.vkCmdPipelineBarrier(commands, source, destination, 0, 1, &memory, 0, nullptr, 0,
                                 nullptr);
}

}  // namespace

Status create_commands(Context& context, OwnedCommandPool* pool, VkCommandBuffer* commands) {
  const Functions& functions = context.functions();
  VkCommandPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  info.queueFamilyIndex = context.physical().queue_family;
  CROSSFLASH_TRY(create(functions, context.device(), functions.vkCreateCommandPool,
                        "vkCreateCommandPool", info, pool));
  VkCommandBufferAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  allocate.commandPool = pool->get();
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  VkCommandBuffer made = VK_NULL_HANDLE;
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions, vkAllocateCommandBuffers, context.device(),
                                        &allocate, &made));
  if (made == VK_NULL_HANDLE)
    return device_error("vkAllocateCommandBuffers reported success but made nothing");
  *commands = made;
  return {};
}

Status begin_commands(Context& context, VkCommandPool pool, VkCommandBuffer commands) {
  const Functions& functions = context.functions();
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions, vkResetCommandPool, context.device(), pool, 0));
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  return CROSSFLASH_VULKAN_CALL(functions, vkBeginCommandBuffer, commands, &info);
}

void full_barrier(const Functions& functions, VkCommandBuffer commands) {
  constexpr VkPipelineStageFlags kStages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
                                           VK_PIPELINE_STAGE_TRANSFER_BIT |
                                           VK_PIPELINE_STAGE_HOST_BIT;
  constexpr VkAccessFlags kWrites =
      VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT;
  constexpr VkAccessFlags kReads = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_UNIFORM_READ_BIT |
                                   VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_HOST_READ_BIT;
  barrier(functions, commands, kStages, kWrites, kStages, kReads | kWrites);
}

void compute_barrier(const Functions& functions, VkCommandBuffer commands) {
  constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  barrier(functions, commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT, kCompute,
          VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
}

}  // namespace crossflash::vulkan
