// SPDX-License-Identifier: MIT
#include "vulkan/backend.h"

#include <mutex>

#include "vulkan/device.h"

namespace crossflash {
namespace vulkan {
namespace {

class VulkanBackend : public Backend {
 public:
  explicit VulkanBackend(Loader loader) : loader_(loader) {}

  const char* name() const override { return "vulkan"; }

  std::vector<DeviceInfo> devices() override {
    std::shared_ptr<const Instance> instance;
    const Status status = connect(&instance);
    std::vector<DeviceInfo> all;
    if (!status.ok()) {
      DeviceInfo none;
      none.backend = name();
      none.reason = status.text();
      all.push_back(none);
      return all;
    }
    for (std::size_t n = 0; n < instance->devices().size(); ++n)
      all.push_back(describe(*instance, static_cast<int>(n)));
    return all;
  }

  Status open(const DeviceOptions& options, std::unique_ptr<Device>* out) override {
    std::shared_ptr<const Instance> instance;
    const Status status = connect(&instance);
    if (!status.ok()) return unsupported("backend vulkan: {}", status.text());
    const auto count = static_cast<int>(instance->devices().size());
    if (options.index >= count)
      return unsupported("backend is vulkan:{}; there are {} Vulkan devices", options.index, count);
    const DeviceInfo info = describe(*instance, options.index);
    if (!info.usable)
      return unsupported("backend is vulkan:{}; {} cannot be used: {}", options.index, info.name,
                         info.reason);
    return VulkanDevice::create(std::move(instance), info, options, out);
  }

 private:
  // The instance lives as long as somebody uses it, and is made again when needed again.
  Status connect(std::shared_ptr<const Instance>* out) {
    const std::lock_guard lock(mutex_);
    *out = instance_.lock();
    if (*out) return {};
    CROSSFLASH_TRY(Instance::create(loader_, out));
    instance_ = *out;
    return {};
  }

  DeviceInfo describe(const Instance& instance, int index) const {
    const PhysicalDevice& device = instance.devices()[static_cast<std::size_t>(index)];
    DeviceInfo info;
    info.backend = name();
    info.index = index;
    info.usable = device.reason.empty();
    info.software = device.caps.software;
    info.name = device.name;
    info.driver = device.driver;
    info.reason = device.reason;
    return info;
  }

  const Loader loader_;
  std::mutex mutex_;
  std::weak_ptr<const Instance> instance_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(Loader loader) {
  return std::make_unique<VulkanBackend>(loader);
}

}  // namespace vulkan

Backend* vulkan_backend() {
  static const std::unique_ptr<Backend> backend = vulkan::make_backend(vulkan::system_loader);
  return backend.get();
}

}  // namespace crossflash
