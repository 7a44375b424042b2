// SPDX-License-Identifier: MIT
#include "vulkan/recording.h"

#include <algorithm>
#include <array>

#include "vulkan/commands.h"

namespace crossflash::vulkan {
namespace {

constexpr std::size_t kMostBindings = 16;

// Every binding of the kernel gets one buffer, and nothing else does.
Status check_bindings(const Pipeline& pipeline, std::span<const Binding> bindings) {
  const std::size_t expected =
      pipeline.storage_bindings.size() + (pipeline.uniform_bytes != 0 ? 1 : 0);
  if (bindings.size() != expected || expected > kMostBindings)
    return device_error("kernel {} is bound {} buffers; it has {} bindings, of at most {}",
                        pipeline.name, bindings.size(), expected, kMostBindings);
  for (const Binding& binding : bindings) {
    const auto& storage = pipeline.storage_bindings;
    const bool known = binding.uniform ? pipeline.uniform_bytes != 0 && binding.binding == 0
                                       : std::find(storage.begin(), storage.end(),
                                                   binding.binding) != storage.end();
    if (!known) return device_error("kernel {} has no binding {}", pipeline.name, binding.binding);
    if (binding.buffer == VK_NULL_HANDLE || binding.range == 0)
      return device_error("kernel {} is bound no buffer at binding {}", pipeline.name,
                          binding.binding);
  }
  return {};
}

}  // namespace

Status Recording::create(Context& context, const Capacity& capacity,
                         std::unique_ptr<Recording>* out) {
  std::unique_ptr<Recording> recording(new Recording(context));
  CROSSFLASH_TRY(recording->allocate(capacity));
  *out = std::move(recording);
  return {};
}

Recording::~Recording() {
  if (!submitted_) return;
  if (!context_.wait(fence_.get()).ok()) context_.settle();
}

Status Recording::allocate(const Capacity& capacity) {
  CROSSFLASH_TRY(create_commands(context_, &pool_, &commands_));
  CROSSFLASH_TRY(context_.create_fence(&fence_));
  const std::array<VkDescriptorPoolSize, 2> sizes{{
      {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, std::max(capacity.storage_buffers, 1u)},
      {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, std::max(capacity.uniform_buffers, 1u)},
  }};
  VkDescriptorPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  info.maxSets = std::max(capacity.sets, 1u);
  info.poolSizeCount = static_cast<std::uint32_t>(sizes.size());
  info.pPoolSizes = sizes.data();
  return vulkan::create(context_.functions(), context_.device(),
                        context_.functions().vkCreateDescriptorPool, "vkCreateDescriptorPool", info,
                        &descriptors_);
}

Status Recording::begin() {
  const Functions& functions = context_.functions();
  submitted_ = false;
  bound_ = nullptr;
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions, vkResetDescriptorPool, context_.device(),
                                        descriptors_.get(), 0));
  CROSSFLASH_TRY(begin_commands(context_, pool_.get(), commands_));
  full_barrier(functions, commands_);
  return {};
}

Status Recording::bind(const Pipeline& pipeline, std::span<const Binding> bindings) {
  CROSSFLASH_TRY(check_bindings(pipeline, bindings));
  const Functions& functions = context_.functions();
  const VkDescriptorSetLayout layout = pipeline.set_layout.get();
  VkDescriptorSetAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  info.descriptorPool = descriptors_.get();
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout;
  VkDescriptorSet set = VK_NULL_HANDLE;
  CROSSFLASH_TRY(
      CROSSFLASH_VULKAN_CALL(functions, vkAllocateDescriptorSets, context_.device(), &info, &set));
  if (set == VK_NULL_HANDLE)
    return device_error("vkAllocateDescriptorSets reported success but made nothing");

  std::array<VkDescriptorBufferInfo, kMostBindings> windows{};
  std::array<VkWriteDescriptorSet, kMostBindings> writes{};
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    windows[i] = {bindings[i].buffer, bindings[i].offset, bindings[i].range};
    writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    writes[i].dstSet = set;
    writes[i].dstBinding = bindings[i].binding;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType =
        bindings[i].uniform ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &windows[i];
  }
  functions.vkUpdateDescriptorSets(context_.device(), static_cast<std::uint32_t>(bindings.size()),
                                   writes.data(), 0, nullptr);
  if (bound_ != &pipeline)
    functions.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.pipeline.get());
  functions.vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE,
                                    pipeline.layout.get(), 0, 1, &set, 0, nullptr);
  bound_ = &pipeline;
  return {};
}

void Recording::push(const void* data, std::uint32_t bytes) {
  context_.functions().vkCmdPushConstants(commands_, bound_->layout.get(),
                                          VK_SHADER_STAGE_COMPUTE_BIT, 0, bytes, data);
}

void Recording::dispatch(std::uint32_t groups) {
  context_.functions().vkCmdDispatch(commands_, groups, 1, 1);
}

void Recording::barrier() { compute_barrier(context_.functions(), commands_); }

Status Recording::submit() {
  const Functions& functions = context_.functions();
  full_barrier(functions, commands_);
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions, vkEndCommandBuffer, commands_));
  const VkFence fence = fence_.get();
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions, vkResetFences, context_.device(), 1, &fence));
  CROSSFLASH_TRY(context_.submit(commands_, fence));
  submitted_ = true;
  return {};
}

bool Recording::done() const {
  return !submitted_ ||
         context_.functions().vkGetFenceStatus(context_.device(), fence_.get()) != VK_NOT_READY;
}

Status Recording::wait() {
  if (!submitted_) return {};
  return context_.wait(fence_.get());
}

}  // namespace crossflash::vulkan
