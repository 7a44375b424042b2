// SPDX-License-Identifier: MIT
#include "vulkan/validation.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "vulkan/enumerate.h"

namespace crossflash::vulkan {
namespace {

constexpr const char* kLayer = "VK_LAYER_KHRONOS_validation";
constexpr VkValidationFeatureEnableEXT kSynchronization =
    VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;

VKAPI_ATTR VkBool32 VKAPI_CALL print_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                             VkDebugUtilsMessageTypeFlagsEXT,
                                             const VkDebugUtilsMessengerCallbackDataEXT* data,
                                             void*) {
  std::fprintf(stderr, "crossflash: validation: %s\n", data->pMessage);
  return VK_FALSE;
}

}  // namespace

bool validation_wanted() {
  const char* value = std::getenv("CROSSFLASH_VALIDATION");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

Status check_validation(const Functions& functions) {
  std::vector<VkLayerProperties> layers;
  CROSSFLASH_TRY(enumerate(functions.vkEnumerateInstanceLayerProperties,
                           "vkEnumerateInstanceLayerProperties", &layers));
  bool found = false;
  for (const VkLayerProperties& layer : layers)
    found = found || std::strcmp(layer.layerName, kLayer) == 0;
  if (!found)
    return unsupported("CROSSFLASH_VALIDATION is 1, but the layer {} is not installed", kLayer);

  std::vector<VkExtensionProperties> extensions;
  CROSSFLASH_TRY(enumerate(
      [&](std::uint32_t* count, VkExtensionProperties* items) {
        return functions.vkEnumerateInstanceExtensionProperties(kLayer, count, items);
      },
      "vkEnumerateInstanceExtensionProperties", &extensions));
  for (const char* name :
       {VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME, VK_EXT_DEBUG_UTILS_EXTENSION_NAME})
    if (!has_extension(extensions, name))
      return unsupported("CROSSFLASH_VALIDATION is 1, but the layer {} has no {}", kLayer, name);
  return {};
}

ValidationRequest::ValidationRequest()
    : layer_(kLayer),
      extensions_{VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME, VK_EXT_DEBUG_UTILS_EXTENSION_NAME} {
  messenger_.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messenger_.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                               VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger_.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  messenger_.pfnUserCallback = print_message;
  features_.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
  features_.pNext = &messenger_;  // so that making the instance itself is watched too
  features_.enabledValidationFeatureCount = 1;
  features_.pEnabledValidationFeatures = &kSynchronization;
}

}  // namespace crossflash::vulkan
