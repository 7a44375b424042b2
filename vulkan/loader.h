// SPDX-License-Identifier: MIT
// loader.h: every Vulkan function the backend calls, listed once, and where they come from. Nothing
// links to the Vulkan loader: it is opened at run time, so the library starts where there is none.
// A Loader is the seam: a test passes its own and the whole backend runs on a driver it invents.
// Invariant: after load_* succeeded every function of that level is there; no caller asks again.
#pragma once

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

#include "common/status.h"

namespace crossflash::vulkan {

#define CROSSFLASH_VULKAN_GLOBAL_FUNCTIONS(X) \
  X(vkCreateInstance)                         \
  X(vkEnumerateInstanceExtensionProperties)   \
  X(vkEnumerateInstanceLayerProperties)

#define CROSSFLASH_VULKAN_INSTANCE_FUNCTIONS(X) \
  X(vkCreateDevice)                             \
  X(vkDestroyInstance)                          \
  X(vkEnumerateDeviceExtensionProperties)       \
  X(vkEnumeratePhysicalDevices)                 \
  X(vkGetDeviceProcAddr)                        \
  X(vkGetPhysicalDeviceMemoryProperties)        \
  X(vkGetPhysicalDeviceProperties)              \
  X(vkGetPhysicalDeviceProperties2)             \
  X(vkGetPhysicalDeviceQueueFamilyProperties)

// Null where the loader is too old or the extension is off; who uses them checks.
#define CROSSFLASH_VULKAN_OPTIONAL_FUNCTIONS(X) \
  X(vkEnumerateInstanceVersion)                 \
  X(vkCreateDebugUtilsMessengerEXT)             \
  X(vkDestroyDebugUtilsMessengerEXT)

#define CROSSFLASH_VULKAN_DEVICE_FUNCTIONS(X) \
  X(vkAllocateCommandBuffers)                 \
  X(vkAllocateDescriptorSets)                 \
  X(vkAllocateMemory)                         \
  X(vkBeginCommandBuffer)                     \
  X(vkBindBufferMemory)                       \
  X(vkCmdBindDescriptorSets)                  \
  X(vkCmdBindPipeline)                        \
  X(vkCmdCopyBuffer)                          \
  X(vkCmdDispatch)                            \
  X(vkCmdPipelineBarrier)                     \
  X(vkCmdPushConstants)                       \
  X(vkCreateBuffer)                           \
  X(vkCreateCommandPool)                      \
  X(vkCreateComputePipelines)                 \
  X(vkCreateDescriptorPool)                   \
  X(vkCreateDescriptorSetLayout)              \
  X(vkCreateFence)                            \
  X(vkCreatePipelineCache)                    \
  X(vkCreatePipelineLayout)                   \
  X(vkCreateShaderModule)                     \
  X(vkDestroyBuffer)                          \
  X(vkDestroyCommandPool)                     \
  X(vkDestroyDescriptorPool)                  \
  X(vkDestroyDescriptorSetLayout)             \
  X(vkDestroyDevice)                          \
  X(vkDestroyFence)                           \
  X(vkDestroyPipeline)                        \
  X(vkDestroyPipelineCache)                   \
  X(vkDestroyPipelineLayout)                  \
  X(vkDestroyShaderModule)                    \
  X(vkDeviceWaitIdle)                         \
  X(vkEndCommandBuffer)                       \
  X(vkFreeMemory)                             \
  X(vkGetBufferMemoryRequirements)            \
  X(vkGetDeviceQueue)                         \
  X(vkGetFenceStatus)                         \
  X(vkGetPipelineCacheData)                   \
  X(vkMapMemory)                              \
  X(vkMergePipelineCaches)                    \
  X(vkQueueSubmit)                            \
  X(vkResetCommandPool)                       \
  X(vkResetDescriptorPool)                    \
  X(vkResetFences)                            \
  X(vkUpdateDescriptorSets)                   \
  X(vkWaitForFences)

struct Functions {
#define CROSSFLASH_VULKAN_MEMBER(name) PFN_##name name = nullptr;
  CROSSFLASH_VULKAN_MEMBER(vkGetInstanceProcAddr)
  CROSSFLASH_VULKAN_GLOBAL_FUNCTIONS(CROSSFLASH_VULKAN_MEMBER)
  CROSSFLASH_VULKAN_OPTIONAL_FUNCTIONS(CROSSFLASH_VULKAN_MEMBER)
  CROSSFLASH_VULKAN_INSTANCE_FUNCTIONS(CROSSFLASH_VULKAN_MEMBER)
  CROSSFLASH_VULKAN_DEVICE_FUNCTIONS(CROSSFLASH_VULKAN_MEMBER)
#undef CROSSFLASH_VULKAN_MEMBER

  // Each finds all it can, and fails if one is missing.
  Status load_global(PFN_vkGetInstanceProcAddr entry);
  Status load_instance(VkInstance instance);
  Status load_device(VkDevice device);
};

// Finds Vulkan's one entry point, or says why there is none.
using Loader = Status (*)(PFN_vkGetInstanceProcAddr* entry);

// The system's loader. It stays open until the process ends: drivers leave threads behind.
Status system_loader(PFN_vkGetInstanceProcAddr* entry);

}  // namespace crossflash::vulkan
