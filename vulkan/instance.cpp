// SPDX-License-Identifier: MIT
#include "vulkan/instance.h"

#include <algorithm>
#include <optional>

#include "vulkan/enumerate.h"
#include "vulkan/validation.h"

namespace crossflash::vulkan {
namespace {

std::string version_text(std::uint32_t version) {
  return fmt::format("{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
}

// Good devices first; the order of the list is the order of preference.
int rank(const PhysicalDevice& device) {
  switch (device.properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 4;
    default:
      return 3;
  }
}

// A slow device of each class does roughly 1 TFLOP/s, 100 GFLOP/s, 10 GFLOP/s in our kernels: well
// under half a second each.
double flops_per_dispatch(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 64e9;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 8e9;
    default:
      return 4e9;
  }
}

Caps caps_of(const VkPhysicalDeviceProperties& properties) {
  const VkPhysicalDeviceLimits& limits = properties.limits;
  Caps caps;
  caps.shared_bytes = limits.maxComputeSharedMemorySize;
  caps.invocations =
      std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
  caps.storage_buffers =
      std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers);
  caps.groups = limits.maxComputeWorkGroupCount[0];
  caps.range = limits.maxStorageBufferRange;
  caps.alignment = std::max<VkDeviceSize>(limits.minStorageBufferOffsetAlignment, 1);
  caps.push_bytes = limits.maxPushConstantsSize;
  caps.flops_per_dispatch = flops_per_dispatch(properties.deviceType);
  caps.software = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  if (caps.software) caps.loop_iterations = 60000;
  return caps;
}

// A family that computes and does not draw, so that a long dispatch does not stop the screen; else
// any that computes.
std::optional<std::uint32_t> compute_family(const std::vector<VkQueueFamilyProperties>& families) {
  std::optional<std::uint32_t> found;
  for (std::uint32_t i = 0; i < families.size(); ++i) {
    if (families[i].queueCount == 0 || (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0)
      continue;
    if ((families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0) return i;
    if (!found) found = i;
  }
  return found;
}

}  // namespace

Status Instance::create(Loader loader, std::shared_ptr<const Instance>* out) {
  PFN_vkGetInstanceProcAddr entry = nullptr;
  CROSSFLASH_TRY(loader(&entry));
  std::shared_ptr<Instance> instance(new Instance);
  CROSSFLASH_TRY(instance->functions_.load_global(entry));
  CROSSFLASH_TRY(instance->create_instance());
  CROSSFLASH_TRY(instance->find_devices());
  *out = std::move(instance);
  return {};
}

Instance::~Instance() {
  if (messenger_ != VK_NULL_HANDLE)
    functions_.vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  // Where loading the functions failed half-way, destroying may be what is missing.
  if (handle_ != VK_NULL_HANDLE && functions_.vkDestroyInstance != nullptr)
    functions_.vkDestroyInstance(handle_, nullptr);
}

Status Instance::create_instance() {
  std::uint32_t version = VK_API_VERSION_1_0;
  if (functions_.vkEnumerateInstanceVersion != nullptr)
    CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions_, vkEnumerateInstanceVersion, &version));
  if (version < VK_API_VERSION_1_1)
    return unsupported("the Vulkan loader supports Vulkan {}; 1.1 is needed",
                       version_text(version));

  std::vector<VkExtensionProperties> offered;
  CROSSFLASH_TRY(enumerate(
      [&](std::uint32_t* count, VkExtensionProperties* items) {
        return functions_.vkEnumerateInstanceExtensionProperties(nullptr, count, items);
      },
      "vkEnumerateInstanceExtensionProperties", &offered));

  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "crossflash";
  application.pEngineName = "crossflash";
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;

  std::vector<const char*> extensions;
  if (has_extension(offered, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  std::optional<ValidationRequest> validation;
  std::vector<const char*> layers;
  if (validation_wanted()) {
    CROSSFLASH_TRY(check_validation(functions_));
    validation.emplace();
    layers.push_back(validation->layer());
    extensions.insert(extensions.end(), validation->extensions().begin(),
                      validation->extensions().end());
    info.pNext = validation->chain();
  }
  info.enabledLayerCount = static_cast<std::uint32_t>(layers.size());
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();

  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions_, vkCreateInstance, &info, nullptr, &handle_));
  if (handle_ == VK_NULL_HANDLE)
    return device_error("vkCreateInstance reported success but made nothing");
  CROSSFLASH_TRY(functions_.load_instance(handle_));
  if (!validation) return {};
  if (functions_.vkCreateDebugUtilsMessengerEXT == nullptr ||
      functions_.vkDestroyDebugUtilsMessengerEXT == nullptr)
    return device_error("the Vulkan loader lists VK_EXT_debug_utils without its functions");
  return CROSSFLASH_VULKAN_CALL(functions_, vkCreateDebugUtilsMessengerEXT, handle_,
                                &validation->messenger(), nullptr, &messenger_);
}

Status Instance::find_devices() {
  std::vector<VkPhysicalDevice> handles;
  CROSSFLASH_TRY(enumerate(
      [&](std::uint32_t* count, VkPhysicalDevice* items) {
        return functions_.vkEnumeratePhysicalDevices(handle_, count, items);
      },
      "vkEnumeratePhysicalDevices", &handles));
  if (handles.empty()) return unsupported("the Vulkan loader found no device");
  devices_.resize(handles.size());
  for (std::size_t i = 0; i < handles.size(); ++i) describe(handles[i], &devices_[i]);
  std::stable_sort(
      devices_.begin(), devices_.end(),
      [](const PhysicalDevice& a, const PhysicalDevice& b) { return rank(a) < rank(b); });
  return {};
}

void Instance::describe(VkPhysicalDevice handle, PhysicalDevice* out) const {
  out->handle = handle;
  functions_.vkGetPhysicalDeviceProperties(handle, &out->properties);
  functions_.vkGetPhysicalDeviceMemoryProperties(handle, &out->memory);
  const VkPhysicalDeviceProperties& properties = out->properties;
  out->name = properties.deviceName;
  out->caps = caps_of(properties);
  out->unified = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                 properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  out->driver = fmt::format("version {:#x}", properties.driverVersion);
  if (properties.apiVersion < VK_API_VERSION_1_1) {
    out->reason = fmt::format("the device supports Vulkan {}; 1.1 is needed",
                              version_text(properties.apiVersion));
    return;
  }

  std::vector<VkExtensionProperties> extensions;
  const Status listed = enumerate(
      [&](std::uint32_t* count, VkExtensionProperties* items) {
        return functions_.vkEnumerateDeviceExtensionProperties(handle, nullptr, count, items);
      },
      "vkEnumerateDeviceExtensionProperties", &extensions);
  if (!listed.ok()) {
    out->reason = listed.text();
    return;
  }
  out->portability = has_extension(extensions, "VK_KHR_portability_subset");
  if (properties.apiVersion >= VK_API_VERSION_1_2 ||
      has_extension(extensions, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME)) {
    VkPhysicalDeviceDriverProperties driver{};
    driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    VkPhysicalDeviceProperties2 chained{};
    chained.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    chained.pNext = &driver;
    functions_.vkGetPhysicalDeviceProperties2(handle, &chained);
    out->driver = fmt::format("{} {}", driver.driverName,
                              driver.driverInfo[0] != '\0' ? driver.driverInfo : out->driver);
  }

  std::uint32_t count = 0;
  functions_.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  functions_.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, families.data());
  families.resize(count);
  if (const auto family = compute_family(families))
    out->queue_family = *family;
  else
    out->reason = "the device has no queue that can compute";
}

}  // namespace crossflash::vulkan
