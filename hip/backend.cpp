// SPDX-License-Identifier: MIT
// backend.cpp: the backend "hip" and the module's one exported symbol: lists GPUs, says of each
// whether this build has kernels for it, opens them.

#include <algorithm>
#include <limits>
#include <string_view>

#include "common/backend.h"
#include "common/module.h"
#include "hip/check.h"
#include "hip/device.h"
#include "hip/units.h"

namespace crossflash {
namespace hip {
namespace {

// A launch on AMD GPUs counts its threads in 32 bits.
constexpr std::int64_t kTotalThreads =
    kNvidia ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::uint32_t>::max();

Caps read_caps(const hipDeviceProp_t& properties) {
  Caps caps;
  caps.architecture = architecture_name(properties);
  caps.shared_bytes = shared_bytes(properties);
  caps.threads = properties.maxThreadsPerBlock;
  caps.blocks = properties.maxGridSize[0];
  caps.total_threads = kTotalThreads;
  return caps;
}

bool any_unit_runs_on(const std::string& architecture) {
  return std::any_of(units().begin(), units().end(),
                     [&](const Unit& unit) { return runs_on(unit.gpus, architecture); });
}

// "gfx90a, gfx942"; of NVIDIA "80, 90a-real".
std::string compiled_gpus() {
  std::string text;
  for (const Unit& unit : units())
    for (std::string_view rest = unit.gpus; !rest.empty();) {
      const std::string gpu(rest.substr(0, rest.find(';')));
      rest.remove_prefix(std::min(gpu.size() + 1, rest.size()));
      if (text.find(gpu) == std::string::npos) text += (text.empty() ? "" : ", ") + gpu;
    }
  return text;
}

std::string driver_text() {
  int driver = 0, runtime = 0;
  if (hipDriverGetVersion(&driver) != hipSuccess || hipRuntimeGetVersion(&runtime) != hipSuccess)
    return kVendor;
  return fmt::format("{} driver {}, runtime {}", kVendor, version_text(driver),
                     version_text(runtime));
}

class HipBackend final : public Backend {
 public:
  const char* name() const override { return "hip"; }

  std::vector<DeviceInfo> devices() override {
    int count = 0;
    const Status status = count_devices(&count);
    if (!status.ok()) {
      DeviceInfo none;
      none.backend = name();
      none.reason = status.text();
      return {none};
    }
    std::vector<DeviceInfo> all(static_cast<std::size_t>(count));
    for (int n = 0; n < count; ++n) {
      Caps caps;
      describe(n, &all[static_cast<std::size_t>(n)], &caps);
    }
    return all;
  }

  Status open(const DeviceOptions& options, std::unique_ptr<Device>* out) override {
    int count = 0;
    const Status status = count_devices(&count);
    if (!status.ok()) return unsupported("backend hip: {}", status.text());
    if (options.index >= count)
      return unsupported("backend is hip:{}; there are {} HIP devices", options.index, count);
    DeviceInfo info;
    Caps caps;
    describe(options.index, &info, &caps);
    if (!info.usable)
      return unsupported("backend is hip:{}; {} cannot be used: {}", options.index, info.name,
                         info.reason);
    return HipDevice::create(std::move(info), std::move(caps), options, out);
  }

 private:
  Status count_devices(int* count) const {
    const hipError_t error = hipGetDeviceCount(count);
    if (error != hipSuccess) {
      static_cast<void>(hipGetLastError());
      return device_error("no {} device: {}", kVendor, hipGetErrorString(error));
    }
    if (*count == 0) return device_error("no {} device", kVendor);
    return {};
  }

  void describe(int index, DeviceInfo* info, Caps* caps) const {
    info->backend = name();
    info->index = index;
    hipDeviceProp_t properties{};
    const Status status =
        check(hipGetDeviceProperties(&properties, index), "hipGetDeviceProperties");
    if (!status.ok()) {
      info->reason = status.text();
      return;
    }
    *caps = read_caps(properties);
    info->name = fmt::format("{} ({})", properties.name, caps->architecture);
    info->driver = driver_text();
    info->usable = any_unit_runs_on(caps->architecture);
    if (!info->usable)
      info->reason = fmt::format("this build has kernels for {}; the device is {}", compiled_gpus(),
                                 caps->architecture);
  }
};

Backend* backend() {
  static HipBackend backend;
  return &backend;
}

}  // namespace

}  // namespace hip
}  // namespace crossflash

extern "C" __attribute__((visibility("default"))) const crossflash::ModuleEntry crossflash_module;
const crossflash::ModuleEntry crossflash_module{crossflash::module_interface(),
                                                crossflash::hip::backend};
