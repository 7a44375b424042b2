// SPDX-License-Identifier: MIT
// result.h: VkResult becomes Status here and nowhere else; the sentence names the call.
#pragma once

#include "common/status.h"
#include "vulkan/loader.h"

namespace crossflash::vulkan {

// Ok for VK_SUCCESS alone: a caller that expects VK_INCOMPLETE or VK_TIMEOUT looks before.
Status check(VkResult result, const char* call);

// check(functions.call(...), "call"), with the name written once.
#define CROSSFLASH_VULKAN_CALL(functions, call, ...) \
  ::crossflash::vulkan::check((functions).call(__VA_ARGS__), #call)

}  // namespace crossflash::vulkan
