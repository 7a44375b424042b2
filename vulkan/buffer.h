// SPDX-License-Identifier: MIT
// buffer.h: a buffer with memory of its own. Data lies in device-local memory if there is any;
// where host and device share theirs it is mapped as well. Invariant: mapped memory is coherent, so
// that nobody flushes.
#pragma once

#include <cstddef>
#include <memory>

#include "vulkan/context.h"

namespace crossflash::vulkan {

class Buffer {
 public:
  enum class Kind {
    storage,  // tensors and workspace
    uniform,  // a parameter block
    staging,  // host memory that the device copies from and to; always mapped
  };

  // The size is rounded up to 4 bytes, and never 0.
  static Status create(Context& context, VkDeviceSize bytes, Kind kind,
                       std::unique_ptr<Buffer>* out);

  VkBuffer handle() const { return buffer_.get(); }
  VkDeviceSize bytes() const { return bytes_; }
  std::byte* mapped() const { return mapped_; }  // null if the host cannot see it

 private:
  Buffer() = default;
  Status allocate(Context& context, Kind kind);

  VkDeviceSize bytes_ = 0;
  // The memory is freed, and with it unmapped, after the buffer is gone.
  OwnedMemory memory_;
  OwnedBuffer buffer_;
  std::byte* mapped_ = nullptr;
};

}  // namespace crossflash::vulkan
