// SPDX-License-Identifier: MIT
// backend.h: makes the Vulkan backend on a loader of the caller's choice: the system's in the
// library (vulkan_backend), an invented driver in tests.
#pragma once

#include <memory>

#include "common/backend.h"
#include "vulkan/loader.h"

namespace crossflash::vulkan {

std::unique_ptr<Backend> make_backend(Loader loader);

}  // namespace crossflash::vulkan
