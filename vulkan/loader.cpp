// SPDX-License-Identifier: MIT
#include "vulkan/loader.h"

#include <dlfcn.h>

namespace crossflash::vulkan {
namespace {

// Finds one function; a missing one is kept in `status`, and the others are looked for all the
// same, so that what was made can be destroyed.
template <typename Function, typename Find>
void find_required(const Find& find, const char* name, Function* function, Status* status) {
  *function = reinterpret_cast<Function>(find(name));
  if (*function == nullptr && status->ok())
    *status = device_error("the Vulkan driver has no function {}", name);
}

}  // namespace

Status Functions::load_global(PFN_vkGetInstanceProcAddr entry) {
  vkGetInstanceProcAddr = entry;
  const auto find = [entry](const char* name) { return entry(VK_NULL_HANDLE, name); };
  Status status;
#define CROSSFLASH_VULKAN_FIND(name) find_required(find, #name, &name, &status);
  CROSSFLASH_VULKAN_GLOBAL_FUNCTIONS(CROSSFLASH_VULKAN_FIND)
  vkEnumerateInstanceVersion =
      reinterpret_cast<PFN_vkEnumerateInstanceVersion>(find("vkEnumerateInstanceVersion"));
  return status;
}

Status Functions::load_instance(VkInstance instance) {
  const auto find = [this, instance](const char* name) {
    return vkGetInstanceProcAddr(instance, name);
  };
  Status status;
  CROSSFLASH_VULKAN_INSTANCE_FUNCTIONS(CROSSFLASH_VULKAN_FIND)
  vkCreateDebugUtilsMessengerEXT =
      reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(find("vkCreateDebugUtilsMessengerEXT"));
  vkDestroyDebugUtilsMessengerEXT = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
      find("vkDestroyDebugUtilsMessengerEXT"));
  return status;
}

Status Functions::load_device(VkDevice device) {
  const auto find = [this, device](const char* name) { return vkGetDeviceProcAddr(device, name); };
  Status status;
  CROSSFLASH_VULKAN_DEVICE_FUNCTIONS(CROSSFLASH_VULKAN_FIND)
#undef CROSSFLASH_VULKAN_FIND
  return status;
}

Status system_loader(PFN_vkGetInstanceProcAddr* entry) {
#ifdef __APPLE__
  constexpr const char* kNames[] = {"libvulkan.1.dylib", "libMoltenVK.dylib"};
#else
  constexpr const char* kNames[] = {"libvulkan.so.1", "libvulkan.so"};
#endif
  for (const char* name : kNames) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    *entry = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
    if (*entry == nullptr) return device_error("{} has no vkGetInstanceProcAddr", name);
    return {};
  }
  return unsupported("no Vulkan loader was found; {} could not be opened", kNames[0]);
}

}  // namespace crossflash::vulkan
