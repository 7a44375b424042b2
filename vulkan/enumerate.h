// SPDX-License-Identifier: MIT
// enumerate.h: Vulkan's lists, which are asked for twice: once for the count, once for the items.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "vulkan/result.h"

namespace crossflash::vulkan {

// `list` is called with (std::uint32_t* count, T* items or null) and returns a VkResult.
template <typename T, typename List>
Status enumerate(const List& list, const char* call, std::vector<T>* out) {
  VkResult result = VK_INCOMPLETE;
  while (result == VK_INCOMPLETE) {  // the list grew between the two calls
    std::uint32_t count = 0;
    CROSSFLASH_TRY(check(list(&count, nullptr), call));
    out->resize(count);
    result = list(&count, out->data());
    if (result == VK_SUCCESS) out->resize(count);
  }
  return check(result, call);
}

inline bool has_extension(const std::vector<VkExtensionProperties>& all, const char* name) {
  for (const VkExtensionProperties& one : all)
    if (std::strcmp(one.extensionName, name) == 0) return true;
  return false;
}

}  // namespace crossflash::vulkan
