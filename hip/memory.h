// SPDX-License-Identifier: MIT
// memory.h: device memory: owned stretches, and the book of those that users have created, by which
// stretches that leave a buffer are refused.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "common/backend.h"
#include "hip/runtime.h"

namespace crossflash::hip {

// Memory of the device that is current when it is made.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }

  static Status create(std::uint64_t bytes, Memory* out);
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

class Buffers {
 public:
  Status create(std::uint64_t bytes, crossflash_buffer* out);
  void destroy(crossflash_buffer buffer);
  // Refuses a stretch that leaves a buffer of ours; memory of others is the caller's word.
  Status check_stretch(const char* name, crossflash_buffer buffer, std::uint64_t bytes) const;

 private:
  struct Buffer {
    Memory memory;
    std::uint64_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<const std::byte*, Buffer> all_;
};

inline std::byte* address(const crossflash_buffer& buffer) {
  return static_cast<std::byte*>(buffer.handle) + buffer.offset;
}

}  // namespace crossflash::hip
