// SPDX-License-Identifier: MIT
// registry.h: finds the device a caller means: "vulkan:1", an environment variable, or the best.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/backend.h"

namespace crossflash {

std::vector<DeviceInfo> list_devices();

// `selector` is "backend", "backend:index" or empty; see crossflash_device_options.
Status open_device(const std::string& selector, DeviceOptions options,
                   std::unique_ptr<Device>* out);

}  // namespace crossflash
