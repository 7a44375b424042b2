// SPDX-License-Identifier: MIT
#include "vulkan/result.h"

namespace crossflash::vulkan {
namespace {

const char* meaning(VkResult result) {
  switch (result) {
    case VK_NOT_READY:
      return "VK_NOT_READY (not finished)";
    case VK_TIMEOUT:
      return "VK_TIMEOUT (not finished in time)";
    case VK_INCOMPLETE:
      return "VK_INCOMPLETE (the list grew meanwhile)";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "VK_ERROR_OUT_OF_HOST_MEMORY (host memory ran out)";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "VK_ERROR_OUT_OF_DEVICE_MEMORY (device memory ran out)";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "VK_ERROR_INITIALIZATION_FAILED (the driver could not start)";
    case VK_ERROR_DEVICE_LOST:
      return "VK_ERROR_DEVICE_LOST (the device was lost; it must be opened anew)";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "VK_ERROR_MEMORY_MAP_FAILED (memory could not be mapped)";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "VK_ERROR_LAYER_NOT_PRESENT (a layer is missing)";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "VK_ERROR_EXTENSION_NOT_PRESENT (an extension is missing)";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "VK_ERROR_FEATURE_NOT_PRESENT (a feature is missing)";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "VK_ERROR_INCOMPATIBLE_DRIVER (there is no usable driver)";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "VK_ERROR_TOO_MANY_OBJECTS (too many objects)";
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
      return "VK_ERROR_OUT_OF_POOL_MEMORY (the descriptor pool is too small)";
    case VK_ERROR_INVALID_SHADER_NV:
      return "VK_ERROR_INVALID_SHADER (the shader was refused)";
    case VK_ERROR_UNKNOWN:
      return "VK_ERROR_UNKNOWN (the driver does not say why)";
    default:
      return nullptr;
  }
}

}  // namespace

Status check(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return {};
  if (const char* text = meaning(result); text != nullptr)
    return device_error("{} failed with {}", call, text);
  return device_error("{} failed with VkResult {}", call, static_cast<int>(result));
}

}  // namespace crossflash::vulkan
