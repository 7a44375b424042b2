// SPDX-License-Identifier: MIT
// vulkan_mock_objects.h: what stands behind the mock's handles. A handle is the address of its
// Object; the driver's map says whether it is alive. For the mock's own sources.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "tests/device/vulkan_mock.h"

namespace crossflash::mock {

struct Object {
  virtual ~Object() = default;
  virtual const char* type() const = 0;
  int in_flight = 0;  // submissions not finished that use it
};

template <int kId>
struct Plain : Object {  // nothing to know but that it lives
  const char* type() const override { return kType; }
  static constexpr const char* kType = std::array{"VkInstance", "VkDebugUtilsMessengerEXT",
                                                  "VkShaderModule", "VkPipelineCache"}[kId];
};
using InstanceObject = Plain<0>;
using MessengerObject = Plain<1>;
using ShaderModuleObject = Plain<2>;
using PipelineCacheObject = Plain<3>;

struct DeviceObject : Object {
  static constexpr const char* kType = "VkDevice";
  const char* type() const override { return kType; }
  const DeviceSpec* spec = nullptr;
  struct Submission {
    std::vector<Object*> uses;
    Object* fence = nullptr;
  };
  std::vector<Submission> pending;
};

struct FenceObject : Object {
  static constexpr const char* kType = "VkFence";
  const char* type() const override { return kType; }
  bool signaled = false;
};

struct MemoryObject : Object {
  static constexpr const char* kType = "VkDeviceMemory";
  const char* type() const override { return kType; }
  std::vector<std::byte> bytes;
  std::uint32_t memory_type = 0;
};

struct BufferObject : Object {
  static constexpr const char* kType = "VkBuffer";
  const char* type() const override { return kType; }
  VkDeviceSize bytes = 0;
  VkBufferUsageFlags usage = 0;
  VkDeviceMemory memory = VK_NULL_HANDLE;
};

struct SetLayoutObject : Object {
  static constexpr const char* kType = "VkDescriptorSetLayout";
  const char* type() const override { return kType; }
  std::map<std::uint32_t, VkDescriptorType> bindings;
};

struct PipelineLayoutObject : Object {
  static constexpr const char* kType = "VkPipelineLayout";
  const char* type() const override { return kType; }
  std::map<std::uint32_t, VkDescriptorType> bindings;
  std::uint32_t push_bytes = 0;
};

struct PipelineObject : Object {
  static constexpr const char* kType = "VkPipeline";
  const char* type() const override { return kType; }
  std::map<std::uint32_t, VkDescriptorType> bindings;
  std::uint32_t push_bytes = 0;
};

struct DescriptorPoolObject : Object {
  static constexpr const char* kType = "VkDescriptorPool";
  const char* type() const override { return kType; }
  std::uint32_t sets = 0;
  std::map<VkDescriptorType, std::uint32_t> descriptors, left;
  std::vector<const void*> made;
};

struct SetObject : Object {
  static constexpr const char* kType = "VkDescriptorSet";
  const char* type() const override { return kType; }
  std::map<std::uint32_t, VkDescriptorType> layout;
  std::map<std::uint32_t, std::pair<VkDescriptorType, VkDescriptorBufferInfo>> written;
};

struct CommandsObject : Object {
  static constexpr const char* kType = "VkCommandBuffer";
  const char* type() const override { return kType; }
  bool recording = false, ready = false;
  std::vector<Object*> uses;
  std::vector<std::function<void()>> copies;
  const PipelineObject* pipeline = nullptr;
  SetObject* set = nullptr;
  std::uint32_t pushed = 0;
};

struct CommandPoolObject : Object {
  static constexpr const char* kType = "VkCommandPool";
  const char* type() const override { return kType; }
  std::vector<const void*> made;
};

template <typename T>
T* Driver::make(std::unique_ptr<T> object) {
  T* raw = object.get();
  objects[raw] = std::move(object);
  ++alive[T::kType];
  return raw;
}

template <typename T>
T* Driver::find(const void* handle, const char* user) {
  const std::lock_guard lock(mutex);
  const auto found = objects.find(handle);
  T* object = found == objects.end() ? nullptr : dynamic_cast<T*>(found->second.get());
  if (object != nullptr) return object;
  complain(fmt::format("{} is given a {} that is {}", user, T::kType,
                       handle == nullptr ? "null" : "not alive"));
  auto stand_in = std::make_unique<T>();
  object = stand_in.get();
  graveyard.push_back(std::move(stand_in));
  return object;
}

// Makes a T for a call that creates one; `fill` gets the new object.
template <typename T, typename Handle, typename Fill>
VkResult create(const char* name, Handle* out, const Fill& fill) {
  Driver& driver = Driver::current();
  const std::lock_guard lock(driver.mutex);
  *out = VK_NULL_HANDLE;
  bool make_nothing = false;
  const VkResult result = driver.enter(name, true, &make_nothing);
  if (result != VK_SUCCESS || make_nothing) return result;
  auto object = std::make_unique<T>();
  fill(*object);
  *out = reinterpret_cast<Handle>(driver.make(std::move(object)));
  return VK_SUCCESS;
}

template <typename Handle>
void destroy(const char* name, Handle handle) {
  Driver& driver = Driver::current();
  const std::lock_guard lock(driver.mutex);
  if (handle != VK_NULL_HANDLE) driver.destroy(reinterpret_cast<const void*>(handle), name);
}

// A call that can fail and makes nothing; `act` runs if it does not fail.
template <typename Act>
VkResult perform(const char* name, const Act& act) {
  Driver& driver = Driver::current();
  const std::lock_guard lock(driver.mutex);
  bool make_nothing = false;
  const VkResult result = driver.enter(name, false, &make_nothing);
  if (result == VK_SUCCESS) act(driver);
  return result;
}

// Every function of the backend's lists, in namespace crossflash::mock.
#define CROSSFLASH_MOCK_DECLARE(name) std::remove_pointer_t<PFN_##name> name;
CROSSFLASH_VULKAN_GLOBAL_FUNCTIONS(CROSSFLASH_MOCK_DECLARE)
CROSSFLASH_VULKAN_OPTIONAL_FUNCTIONS(CROSSFLASH_MOCK_DECLARE)
CROSSFLASH_VULKAN_INSTANCE_FUNCTIONS(CROSSFLASH_MOCK_DECLARE)
CROSSFLASH_VULKAN_DEVICE_FUNCTIONS(CROSSFLASH_MOCK_DECLARE)
#undef CROSSFLASH_MOCK_DECLARE

}  // namespace crossflash::mock
