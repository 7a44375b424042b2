// SPDX-License-Identifier: MIT
#include "tests/device/vulkan_mock.h"

#include <stdexcept>

#include "tests/device/vulkan_mock_objects.h"

namespace crossflash::mock {
namespace {

Driver* installed = nullptr;

// Once the device is lost these say so, until it is closed.
bool notices_loss(const std::string& name) {
  return name == "vkQueueSubmit" || name == "vkWaitForFences" || name == "vkGetFenceStatus" ||
         name == "vkDeviceWaitIdle";
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL entry_point(VkInstance, const char* name) {
  if (Driver::current().missing.contains(name)) return nullptr;
  const std::string wanted = name;
#define CROSSFLASH_MOCK_FIND(function) \
  if (wanted == #function) return reinterpret_cast<PFN_vkVoidFunction>(function);
  CROSSFLASH_VULKAN_GLOBAL_FUNCTIONS(CROSSFLASH_MOCK_FIND)
  CROSSFLASH_VULKAN_OPTIONAL_FUNCTIONS(CROSSFLASH_MOCK_FIND)
  CROSSFLASH_VULKAN_INSTANCE_FUNCTIONS(CROSSFLASH_MOCK_FIND)
  CROSSFLASH_VULKAN_DEVICE_FUNCTIONS(CROSSFLASH_MOCK_FIND)
#undef CROSSFLASH_MOCK_FIND
  return nullptr;
}

}  // namespace

VkPhysicalDeviceLimits DeviceSpec::floor() {
  VkPhysicalDeviceLimits limits{};
  limits.maxComputeSharedMemorySize = 16384;
  limits.maxComputeWorkGroupInvocations = 128;
  limits.maxComputeWorkGroupSize[0] = 128;
  limits.maxComputeWorkGroupCount[0] = 65535;
  limits.maxPerStageDescriptorStorageBuffers = 4;
  limits.maxDescriptorSetStorageBuffers = 24;
  limits.maxStorageBufferRange = 1u << 27;
  limits.maxUniformBufferRange = 16384;
  limits.minStorageBufferOffsetAlignment = 256;
  limits.minUniformBufferOffsetAlignment = 256;
  limits.maxPushConstantsSize = 128;
  return limits;
}

Driver::Driver() { installed = this; }
Driver::~Driver() { installed = nullptr; }

Driver& Driver::current() {
  if (installed == nullptr) throw std::logic_error("the invented driver is called, but is gone");
  return *installed;
}

Status Driver::loader(PFN_vkGetInstanceProcAddr* entry) {
  *entry = entry_point;
  return {};
}

int Driver::living() const {
  int sum = 0;
  for (const auto& [type, count] : alive) sum += count;
  return sum;
}

VkResult Driver::enter(const char* name, bool makes, bool* make_nothing) {
  const std::size_t number = calls.size();
  calls.push_back({name, makes});
  if (lost && notices_loss(name)) return VK_ERROR_DEVICE_LOST;
  if (!fault || fault->call != number) return VK_SUCCESS;
  *make_nothing = fault->result == VK_SUCCESS;
  lost = lost || fault->result == VK_ERROR_DEVICE_LOST;
  return fault->result;
}

void Driver::complain(std::string what) {
  const std::lock_guard lock(mutex);
  misuse.push_back(std::move(what));
}

void Driver::destroy(const void* handle, const char* user) {
  const std::lock_guard lock(mutex);
  const auto found = objects.find(handle);
  if (found == objects.end()) return complain(fmt::format("{} is given a dead object", user));
  Object& object = *found->second;
  --alive[object.type()];
  if (object.in_flight > 0) {
    complain(fmt::format("{} destroys a {} that the device still uses", user, object.type()));
    graveyard.push_back(std::move(found->second));
  }
  objects.erase(found);
}

}  // namespace crossflash::mock
