// SPDX-License-Identifier: MIT
// instance.h: the Vulkan instance and the physical devices it sees, best first, each with its Caps
// or the reason why it cannot be used. CROSSFLASH_VALIDATION=1 in the environment turns on the
// validation layer with synchronization validation; its messages go to stderr.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vulkan/caps.h"
#include "vulkan/loader.h"

namespace crossflash::vulkan {

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceMemoryProperties memory{};
  std::string name, driver;
  std::string reason;              // empty: usable
  std::uint32_t queue_family = 0;  // of the compute queue
  bool unified = false;            // host and device share their memory
  bool portability = false;        // VK_KHR_portability_subset, which then must be enabled
  Caps caps;
};

class Instance {
 public:
  static Status create(Loader loader, std::shared_ptr<const Instance>* out);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const Functions& functions() const { return functions_; }
  // Discrete GPUs first, software last; at least one.
  const std::vector<PhysicalDevice>& devices() const { return devices_; }

 private:
  Instance() = default;
  Status create_instance();
  Status find_devices();
  void describe(VkPhysicalDevice handle, PhysicalDevice* out) const;

  Functions functions_;
  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<PhysicalDevice> devices_;
};

}  // namespace crossflash::vulkan
