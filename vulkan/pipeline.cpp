// SPDX-License-Identifier: MIT
#include "vulkan/pipeline.h"

namespace crossflash::vulkan {
namespace {

Status create_layouts(Context& context, const Kernel& kernel, Pipeline* pipeline) {
  const Functions& functions = context.functions();
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  const auto add = [&bindings](std::uint32_t number, VkDescriptorType type) {
    bindings.push_back({number, type, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  };
  if (kernel.uniform_bytes != 0) add(0, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER);
  for (const std::uint32_t number : kernel.storage_bindings)
    add(number, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER);
  VkDescriptorSetLayoutCreateInfo set{};
  set.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  set.bindingCount = static_cast<std::uint32_t>(bindings.size());
  set.pBindings = bindings.data();
  CROSSFLASH_TRY(create(functions, context.device(), functions.vkCreateDescriptorSetLayout,
                        "vkCreateDescriptorSetLayout", set, &pipeline->set_layout));

  const VkDescriptorSetLayout set_layout = pipeline->set_layout.get();
  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, kernel.push_bytes};
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &set_layout;
  layout.pushConstantRangeCount = kernel.push_bytes != 0 ? 1 : 0;
  layout.pPushConstantRanges = &push;
  return create(functions, context.device(), functions.vkCreatePipelineLayout,
                "vkCreatePipelineLayout", layout, &pipeline->layout);
}

Status compile(Context& context, const Kernel& kernel, std::span<const std::uint32_t> constants,
               Pipeline* pipeline) {
  const Functions& functions = context.functions();
  VkShaderModuleCreateInfo code{};
  code.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  code.codeSize = kernel.spirv.size_bytes();
  code.pCode = kernel.spirv.data();
  OwnedShaderModule module;
  CROSSFLASH_TRY(create(functions, context.device(), functions.vkCreateShaderModule,
                        "vkCreateShaderModule", code, &module));

  std::vector<VkSpecializationMapEntry> entries;
  for (std::uint32_t id = 0; id < constants.size(); ++id)
    entries.push_back(
        {id, static_cast<std::uint32_t>(id * sizeof(std::uint32_t)), sizeof(std::uint32_t)});
  const VkSpecializationInfo specialization{static_cast<std::uint32_t>(entries.size()),
                                            entries.data(), constants.size_bytes(),
                                            constants.data()};
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module.get();
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialization;
  info.layout = pipeline->layout.get();
  VkPipeline handle = VK_NULL_HANDLE;
  const auto cache_in_use = context.cache().use();
  const VkResult result = functions.vkCreateComputePipelines(
      context.device(), context.cache().handle(), 1, &info, nullptr, &handle);
  return adopt(functions, context.device(), result, handle, "vkCreateComputePipelines",
               &pipeline->pipeline);
}

}  // namespace

Status Pipelines::get(const Kernel& kernel, std::span<const std::uint32_t> constants,
                      const Pipeline** out) {
  const Key key{kernel.name, {constants.begin(), constants.end()}};
  if ((*out = find(key)) != nullptr) return {};

  // Without the lock: others may want pipelines that are there while this one compiles.
  auto made = std::make_unique<Pipeline>();
  made->name = kernel.name;
  made->storage_bindings = kernel.storage_bindings;
  made->uniform_bytes = kernel.uniform_bytes;
  Status status = create_layouts(context_, kernel, made.get());
  if (status.ok()) status = compile(context_, kernel, constants, made.get());
  if (!status.ok()) return device_error("kernel {}: {}", kernel.name, status.text());

  const std::lock_guard lock(mutex_);
  *out = pipelines_.try_emplace(key, std::move(made)).first->second.get();
  return {};
}

const Pipeline* Pipelines::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = pipelines_.find(key);
  return found != pipelines_.end() ? found->second.get() : nullptr;
}

}  // namespace crossflash::vulkan
