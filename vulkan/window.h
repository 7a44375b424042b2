// SPDX-License-Identifier: MIT
// window.h: which part of a buffer a kernel is bound, given where a tensor lies in it.
#pragma once

#include <algorithm>

#include "common/backend.h"
#include "vulkan/recording.h"

namespace crossflash::vulkan {

// A stretch of a buffer as a binding: it starts at an aligned offset at or before the stretch.
struct Window {
  Binding binding;
  std::uint64_t skipped;  // bytes from the binding's start to the stretch
};

inline Window make_window(std::uint32_t number, crossflash_buffer buffer, std::uint64_t offset,
                          std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t begin = buffer.offset + offset;
  const std::uint64_t aligned = begin / alignment * alignment;
  const std::uint64_t end = (begin + bytes + 3) / 4 * 4;  // whole words
  Binding binding;
  binding.binding = number;
  binding.buffer = reinterpret_cast<VkBuffer>(buffer.handle);
  binding.offset = aligned;
  binding.range = std::max<std::uint64_t>(end - aligned, 4);
  return {binding, begin - aligned};
}

}  // namespace crossflash::vulkan
