// SPDX-License-Identifier: MIT
// The mock's instance and device functions: what a driver says about itself.
#include <algorithm>
#include <cstring>

#include "tests/device/vulkan_mock_objects.h"

namespace crossflash::mock {
namespace {

constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                                        VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

template <std::size_t kSize>
void copy_text(const std::string& text, char (&out)[kSize]) {
  std::snprintf(out, kSize, "%s", text.c_str());
}

// The protocol of Vulkan's lists: without `items` the count, with them as many as fit.
template <typename T>
VkResult list(const char* name, const std::vector<T>& all, std::uint32_t* count, T* items) {
  return perform(name, [&](Driver&) {
    if (items != nullptr) {
      *count = std::min(*count, static_cast<std::uint32_t>(all.size()));
      std::copy_n(all.begin(), *count, items);
    } else {
      *count = static_cast<std::uint32_t>(all.size());
    }
  });
}

std::vector<VkExtensionProperties> extension_list(const std::vector<std::string>& names) {
  std::vector<VkExtensionProperties> all(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) copy_text(names[i], all[i].extensionName);
  return all;
}

VkPhysicalDevice device_handle(const DeviceSpec& spec) {
  return reinterpret_cast<VkPhysicalDevice>(const_cast<DeviceSpec*>(&spec));
}
const DeviceSpec& spec_of(VkPhysicalDevice device) {
  return *reinterpret_cast<const DeviceSpec*>(device);
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateInstanceVersion(std::uint32_t* version) {
  return perform("vkEnumerateInstanceVersion",
                 [&](const Driver& driver) { *version = driver.version; });
}

VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateInstanceExtensionProperties(
    const char* layer, std::uint32_t* count, VkExtensionProperties* items) {
  const Driver& driver = Driver::current();
  return list("vkEnumerateInstanceExtensionProperties",
              extension_list(layer != nullptr ? driver.layer_extensions : driver.extensions), count,
              items);
}

VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateInstanceLayerProperties(std::uint32_t* count,
                                                                  VkLayerProperties* items) {
  std::vector<VkLayerProperties> all;
  for (const std::string& name : Driver::current().layers)
    copy_text(name, all.emplace_back().layerName);
  return list("vkEnumerateInstanceLayerProperties", all, count, items);
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateInstance(const VkInstanceCreateInfo* info,
                                                const VkAllocationCallbacks*, VkInstance* out) {
  return create<InstanceObject>("vkCreateInstance", out, [info](InstanceObject&) {
    Driver::current().enabled_layers.assign(info->ppEnabledLayerNames,
                                            info->ppEnabledLayerNames + info->enabledLayerCount);
  });
}
VKAPI_ATTR void VKAPI_CALL vkDestroyInstance(VkInstance handle, const VkAllocationCallbacks*) {
  destroy("vkDestroyInstance", handle);
}

VKAPI_ATTR VkResult VKAPI_CALL
vkCreateDebugUtilsMessengerEXT(VkInstance, const VkDebugUtilsMessengerCreateInfoEXT*,
                               const VkAllocationCallbacks*, VkDebugUtilsMessengerEXT* out) {
  return create<MessengerObject>("vkCreateDebugUtilsMessengerEXT", out, [](MessengerObject&) {});
}
VKAPI_ATTR void VKAPI_CALL vkDestroyDebugUtilsMessengerEXT(VkInstance,
                                                           VkDebugUtilsMessengerEXT handle,
                                                           const VkAllocationCallbacks*) {
  destroy("vkDestroyDebugUtilsMessengerEXT", handle);
}

VKAPI_ATTR VkResult VKAPI_CALL vkEnumeratePhysicalDevices(VkInstance, std::uint32_t* count,
                                                          VkPhysicalDevice* items) {
  std::vector<VkPhysicalDevice> all;
  for (const DeviceSpec& spec : Driver::current().devices) all.push_back(device_handle(spec));
  return list("vkEnumeratePhysicalDevices", all, count, items);
}

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceProperties(VkPhysicalDevice device,
                                                         VkPhysicalDeviceProperties* out) {
  const DeviceSpec& spec = spec_of(device);
  *out = {};
  out->apiVersion = spec.api_version;
  out->driverVersion = 7;
  out->vendorID = 0x10001;
  out->deviceID = 1;
  out->deviceType = spec.type;
  copy_text(spec.name, out->deviceName);
  out->limits = spec.limits;
}

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceProperties2(VkPhysicalDevice device,
                                                          VkPhysicalDeviceProperties2* out) {
  vkGetPhysicalDeviceProperties(device, &out->properties);
  auto* driver = static_cast<VkPhysicalDeviceDriverProperties*>(out->pNext);
  if (driver == nullptr) return;
  copy_text("mock", driver->driverName);
  copy_text("1.0", driver->driverInfo);
}

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceMemoryProperties(
    VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties* out) {
  const DeviceSpec& spec = spec_of(device);
  *out = {};
  out->memoryHeapCount = spec.unified ? 1 : 2;
  out->memoryTypeCount = out->memoryHeapCount;
  out->memoryHeaps[0] = {spec.memory, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  out->memoryHeaps[1] = {spec.memory, 0};
  out->memoryTypes[0] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | (spec.unified ? kHost : 0), 0};
  out->memoryTypes[1] = {kHost, 1};
}

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceQueueFamilyProperties(
    VkPhysicalDevice device, std::uint32_t* count, VkQueueFamilyProperties* items) {
  const auto& queues = spec_of(device).queues;
  if (items == nullptr) {
    *count = static_cast<std::uint32_t>(queues.size());
    return;
  }
  for (std::uint32_t i = 0; i < *count; ++i) {
    items[i] = {};
    items[i].queueFlags = queues[i];
    items[i].queueCount = 1;
  }
}

VKAPI_ATTR VkResult VKAPI_CALL vkEnumerateDeviceExtensionProperties(VkPhysicalDevice device,
                                                                    const char*,
                                                                    std::uint32_t* count,
                                                                    VkExtensionProperties* items) {
  return list("vkEnumerateDeviceExtensionProperties", extension_list(spec_of(device).extensions),
              count, items);
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateDevice(VkPhysicalDevice device, const VkDeviceCreateInfo*,
                                              const VkAllocationCallbacks*, VkDevice* out) {
  return create<DeviceObject>("vkCreateDevice", out,
                              [device](DeviceObject& made) { made.spec = &spec_of(device); });
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice, const char* name) {
  PFN_vkGetInstanceProcAddr entry = nullptr;
  return Driver::loader(&entry).ok() ? entry(VK_NULL_HANDLE, name) : nullptr;
}

}  // namespace crossflash::mock
