// SPDX-License-Identifier: MIT
// The mock's functions that make and destroy a device's objects.
#include <cstring>

#include "tests/device/vulkan_mock_objects.h"

namespace crossflash::mock {
namespace {

const DeviceSpec& spec_of(VkDevice device) {
  return *reinterpret_cast<const DeviceObject*>(device)->spec;
}

std::map<std::uint32_t, VkDescriptorType> bindings_of(const VkPipelineLayoutCreateInfo& info) {
  return Driver::current()
      .find<SetLayoutObject>(info.pSetLayouts[0], "vkCreatePipelineLayout")
      ->bindings;
}

}  // namespace

VKAPI_ATTR void VKAPI_CALL vkDestroyDevice(VkDevice handle, const VkAllocationCallbacks*) {
  Driver& driver = Driver::current();
  for (const auto& [type, count] : driver.alive)
    if (count != 0 && type != "VkInstance" && type != "VkDevice" &&
        type != "VkDebugUtilsMessengerEXT")
      driver.complain(fmt::format("vkDestroyDevice leaves {} {}", count, type));
  destroy("vkDestroyDevice", handle);
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateBuffer(VkDevice, const VkBufferCreateInfo* info,
                                              const VkAllocationCallbacks*, VkBuffer* out) {
  return create<BufferObject>("vkCreateBuffer", out, [info](BufferObject& made) {
    made.bytes = info->size;
    made.usage = info->usage;
  });
}

VKAPI_ATTR void VKAPI_CALL vkGetBufferMemoryRequirements(VkDevice device, VkBuffer buffer,
                                                         VkMemoryRequirements* out) {
  const auto* object =
      Driver::current().find<BufferObject>(buffer, "vkGetBufferMemoryRequirements");
  *out = {};
  out->size = object->bytes;
  out->alignment = 4;
  out->memoryTypeBits = spec_of(device).unified ? 1 : 3;
}

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateMemory(VkDevice, const VkMemoryAllocateInfo* info,
                                                const VkAllocationCallbacks*, VkDeviceMemory* out) {
  return create<MemoryObject>("vkAllocateMemory", out, [info](MemoryObject& made) {
    made.bytes.resize(info->allocationSize);
    made.memory_type = info->memoryTypeIndex;
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkBindBufferMemory(VkDevice, VkBuffer buffer, VkDeviceMemory memory,
                                                  VkDeviceSize) {
  return perform("vkBindBufferMemory", [&](Driver& driver) {
    driver.find<MemoryObject>(memory, "vkBindBufferMemory");
    driver.find<BufferObject>(buffer, "vkBindBufferMemory")->memory = memory;
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkMapMemory(VkDevice device, VkDeviceMemory memory, VkDeviceSize,
                                           VkDeviceSize, VkMemoryMapFlags, void** out) {
  return perform("vkMapMemory", [&](Driver& driver) {
    auto* object = driver.find<MemoryObject>(memory, "vkMapMemory");
    if (object->memory_type == 0 && !spec_of(device).unified)
      driver.complain("vkMapMemory is given memory that the host cannot see");
    *out = object->bytes.data();
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateFence(VkDevice, const VkFenceCreateInfo*,
                                             const VkAllocationCallbacks*, VkFence* out) {
  return create<FenceObject>("vkCreateFence", out, [](FenceObject&) {});
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateShaderModule(VkDevice, const VkShaderModuleCreateInfo* info,
                                                    const VkAllocationCallbacks*,
                                                    VkShaderModule* out) {
  return create<ShaderModuleObject>("vkCreateShaderModule", out, [info](ShaderModuleObject&) {
    if (info->codeSize < 20 || *info->pCode != 0x07230203)
      Driver::current().complain("vkCreateShaderModule is given what is not SPIR-V");
  });
}

VKAPI_ATTR VkResult VKAPI_CALL
vkCreateDescriptorSetLayout(VkDevice, const VkDescriptorSetLayoutCreateInfo* info,
                            const VkAllocationCallbacks*, VkDescriptorSetLayout* out) {
  return create<SetLayoutObject>("vkCreateDescriptorSetLayout", out, [info](SetLayoutObject& made) {
    for (std::uint32_t i = 0; i < info->bindingCount; ++i)
      made.bindings[info->pBindings[i].binding] = info->pBindings[i].descriptorType;
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreatePipelineLayout(VkDevice device,
                                                      const VkPipelineLayoutCreateInfo* info,
                                                      const VkAllocationCallbacks*,
                                                      VkPipelineLayout* out) {
  const VkPhysicalDeviceLimits& limits = spec_of(device).limits;
  return create<PipelineLayoutObject>(
      "vkCreatePipelineLayout", out, [&](PipelineLayoutObject& made) {
        made.bindings = bindings_of(*info);
        std::uint32_t storage = 0;
        for (const auto& [binding, type] : made.bindings)
          storage += type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER ? 1 : 0;
        if (info->pushConstantRangeCount != 0) made.push_bytes = info->pPushConstantRanges[0].size;
        if (storage > limits.maxPerStageDescriptorStorageBuffers)
          Driver::current().complain(fmt::format("a layout has {} storage buffers", storage));
        if (made.push_bytes > limits.maxPushConstantsSize)
          Driver::current().complain(fmt::format("a layout pushes {} bytes", made.push_bytes));
      });
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateComputePipelines(VkDevice, VkPipelineCache cache,
                                                        std::uint32_t,
                                                        const VkComputePipelineCreateInfo* info,
                                                        const VkAllocationCallbacks*,
                                                        VkPipeline* out) {
  return create<PipelineObject>("vkCreateComputePipelines", out, [&](PipelineObject& made) {
    Driver& driver = Driver::current();
    driver.find<PipelineCacheObject>(cache, "vkCreateComputePipelines");
    driver.find<ShaderModuleObject>(info->stage.module, "vkCreateComputePipelines");
    const auto* layout =
        driver.find<PipelineLayoutObject>(info->layout, "vkCreateComputePipelines");
    made.bindings = layout->bindings;
    made.push_bytes = layout->push_bytes;
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreatePipelineCache(VkDevice, const VkPipelineCacheCreateInfo*,
                                                     const VkAllocationCallbacks*,
                                                     VkPipelineCache* out) {
  return create<PipelineCacheObject>("vkCreatePipelineCache", out, [](PipelineCacheObject&) {});
}

VKAPI_ATTR VkResult VKAPI_CALL vkGetPipelineCacheData(VkDevice device, VkPipelineCache,
                                                      std::size_t* bytes, void* data) {
  return perform("vkGetPipelineCacheData", [&](Driver&) {
    VkPipelineCacheHeaderVersionOne header{};
    header.headerSize = sizeof(header);
    header.headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE;
    header.vendorID = 0x10001;
    header.deviceID = spec_of(device).type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 2 : 1;
    *bytes = sizeof(header);
    if (data != nullptr) std::memcpy(data, &header, sizeof(header));
  });
}

VKAPI_ATTR VkResult VKAPI_CALL vkMergePipelineCaches(VkDevice, VkPipelineCache destination,
                                                     std::uint32_t, const VkPipelineCache* source) {
  return perform("vkMergePipelineCaches", [&](Driver& driver) {
    driver.find<PipelineCacheObject>(destination, "vkMergePipelineCaches");
    driver.find<PipelineCacheObject>(*source, "vkMergePipelineCaches");
  });
}

#define CROSSFLASH_MOCK_DESTROY(type, call)                                              \
  VKAPI_ATTR void VKAPI_CALL call(VkDevice, type handle, const VkAllocationCallbacks*) { \
    destroy(#call, handle);                                                              \
  }
CROSSFLASH_MOCK_DESTROY(VkBuffer, vkDestroyBuffer)
CROSSFLASH_MOCK_DESTROY(VkDeviceMemory, vkFreeMemory)
CROSSFLASH_MOCK_DESTROY(VkFence, vkDestroyFence)
CROSSFLASH_MOCK_DESTROY(VkShaderModule, vkDestroyShaderModule)
CROSSFLASH_MOCK_DESTROY(VkDescriptorSetLayout, vkDestroyDescriptorSetLayout)
CROSSFLASH_MOCK_DESTROY(VkPipelineLayout, vkDestroyPipelineLayout)
CROSSFLASH_MOCK_DESTROY(VkPipeline, vkDestroyPipeline)
CROSSFLASH_MOCK_DESTROY(VkPipelineCache, vkDestroyPipelineCache)
#undef CROSSFLASH_MOCK_DESTROY

}  // namespace crossflash::mock
