// SPDX-License-Identifier: MIT
// vulkan_mock.h: a Vulkan driver that runs nothing and watches everything. It has the devices a
// test describes, lets the n-th call fail (or succeed and make nothing), counts what is alive,
// performs copies, and notes every misuse: use after destruction, bindings that are missing, dead,
// unaligned or beyond a limit, objects touched while the device works on them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "vulkan/loader.h"

namespace crossflash::mock {

struct DeviceSpec {
  std::string name = "invented";
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  std::uint32_t api_version = VK_API_VERSION_1_1;
  std::vector<VkQueueFlags> queues = {VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT};
  VkDeviceSize memory = VkDeviceSize{1} << 30;
  bool unified = false;  // one kind of memory, seen by both sides
  std::vector<std::string> extensions;
  VkPhysicalDeviceLimits limits = floor();

  static VkPhysicalDeviceLimits floor();  // what Vulkan guarantees, as far as compute goes
};

struct Call {
  std::string name;
  bool makes;  // an object
};

// What the call with number `call` (counted from 0, over calls that can fail) does instead.
struct Fault {
  std::size_t call;
  VkResult result;  // VK_SUCCESS: it makes nothing and says it did
};

struct Object;

// One driver at a time; it is in place from construction to destruction.
class Driver {
 public:
  Driver();
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // The seam: a vulkan::Loader that finds the driver in place.
  static Status loader(PFN_vkGetInstanceProcAddr* entry);
  static Driver& current();

  // What the test describes.
  std::vector<DeviceSpec> devices{DeviceSpec{}};
  std::uint32_t version = VK_API_VERSION_1_3;
  std::vector<std::string> extensions, layers, layer_extensions;
  std::set<std::string> missing;  // functions it does not have
  std::optional<Fault> fault;
  bool lazy = false;  // work finishes only when it is waited for

  // What the test learns.
  std::vector<Call> calls;
  std::vector<std::string> misuse;
  std::map<std::string, int> alive;  // by type of handle; destroyed ones have 0
  std::size_t dispatches = 0;
  std::size_t submissions = 0;
  std::vector<std::string> enabled_layers;
  int living() const;

  // For the functions of the mock. `enter` counts the call and decides its fate.
  VkResult enter(const char* name, bool makes, bool* make_nothing);
  void complain(std::string what);
  template <typename T>
  T* make(std::unique_ptr<T> object);
  // Never null: misuse is noted, and goes on with an object that stands in.
  template <typename T>
  T* find(const void* handle, const char* user);
  void destroy(const void* handle, const char* user);

  std::recursive_mutex mutex;
  std::map<const void*, std::unique_ptr<Object>> objects;
  std::vector<std::unique_ptr<Object>> graveyard;  // what must not be, but is still pointed to
  bool lost = false;
};

}  // namespace crossflash::mock
