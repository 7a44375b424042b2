// SPDX-License-Identifier: MIT
// owned.h: one Vulkan object that dies with its owner. Invariant: a handle that create() gave is
// not null, whatever the driver returned, and is destroyed once.
#pragma once

#include <utility>

#include "vulkan/loader.h"
#include "vulkan/result.h"

namespace crossflash::vulkan {

template <typename T, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(const Functions& functions, VkDevice device, T handle)
      : functions_(&functions), device_(device), handle_(handle) {}
  Owned(Owned&& other) noexcept { swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Owned() {
    if (handle_ != VK_NULL_HANDLE) (functions_->*Destroy)(device_, handle_, nullptr);
  }

  T get() const { return handle_; }

 private:
  void swap(Owned& other) {
    std::swap(functions_, other.functions_);
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
  }

  const Functions* functions_ = nullptr;
  VkDevice device_ = VK_NULL_HANDLE;
  T handle_ = VK_NULL_HANDLE;
};

using OwnedBuffer = Owned<VkBuffer, &Functions::vkDestroyBuffer>;
using OwnedCommandPool = Owned<VkCommandPool, &Functions::vkDestroyCommandPool>;
using OwnedDescriptorPool = Owned<VkDescriptorPool, &Functions::vkDestroyDescriptorPool>;
using OwnedFence = Owned<VkFence, &Functions::vkDestroyFence>;
using OwnedMemory = Owned<VkDeviceMemory, &Functions::vkFreeMemory>;
using OwnedPipeline = Owned<VkPipeline, &Functions::vkDestroyPipeline>;
using OwnedPipelineCache = Owned<VkPipelineCache, &Functions::vkDestroyPipelineCache>;
using OwnedPipelineLayout = Owned<VkPipelineLayout, &Functions::vkDestroyPipelineLayout>;
using OwnedSetLayout = Owned<VkDescriptorSetLayout, &Functions::vkDestroyDescriptorSetLayout>;
using OwnedShaderModule = Owned<VkShaderModule, &Functions::vkDestroyShaderModule>;

// The result of a creating call and the handle it wrote; `call` is its name.
template <typename T, auto Destroy>
Status adopt(const Functions& functions, VkDevice device, VkResult result, T handle,
             const char* call, Owned<T, Destroy>* out) {
  CROSSFLASH_TRY(check(result, call));
  if (handle == VK_NULL_HANDLE) return device_error("{} reported success but made nothing", call);
  *out = Owned<T, Destroy>(functions, device, handle);
  return {};
}

template <typename T, auto Destroy, typename Info>
Status create(const Functions& functions, VkDevice device,
              VkResult(VKAPI_PTR* make)(VkDevice, const Info*, const VkAllocationCallbacks*, T*),
              const char* call, const Info& info, Owned<T, Destroy>* out) {
  T handle = VK_NULL_HANDLE;
  const VkResult result = make(device, &info, nullptr, &handle);
  return adopt(functions, device, result, handle, call, out);
}

}  // namespace crossflash::vulkan
