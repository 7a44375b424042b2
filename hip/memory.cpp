// SPDX-License-Identifier: MIT
#include "hip/memory.h"

#include "hip/check.h"

namespace crossflash::hip {

Memory::~Memory() {
  if (data_ != nullptr) static_cast<void>(hipFree(data_));  // waits for the work that uses it
}

Status Memory::create(std::uint64_t bytes, Memory* out) {
  void* data = nullptr;
  const Status status = check(hipMalloc(&data, bytes), "hipMalloc");
  if (!status.ok()) return device_error("bytes is {}; {}", bytes, status.text());
  out->data_ = static_cast<std::byte*>(data);
  return {};
}

Status Buffers::create(std::uint64_t bytes, crossflash_buffer* out) {
  Memory memory;
  CROSSFLASH_TRY(Memory::create(bytes, &memory));
  std::byte* const data = memory.data();
  const std::lock_guard lock(mutex_);
  all_.emplace(data, Buffer{std::move(memory), bytes});
  *out = {data, 0};
  return {};
}

void Buffers::destroy(crossflash_buffer buffer) {
  const std::lock_guard lock(mutex_);
  all_.erase(static_cast<const std::byte*>(buffer.handle));
}

Status Buffers::check_stretch(const char* name, crossflash_buffer buffer,
                              std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* handle = static_cast<const std::byte*>(buffer.handle);
  auto found = all_.upper_bound(handle);
  if (found == all_.begin()) return {};
  --found;
  const auto before = static_cast<std::uint64_t>(handle - found->first);
  const std::uint64_t size = found->second.bytes;
  if (before >= size) return {};  // behind the buffer, hence memory of others
  const std::uint64_t left = size - before;
  if (buffer.offset > left || bytes > left - buffer.offset)
    return invalid("{} needs {} bytes from offset {}; its buffer has {}", name, bytes,
                   buffer.offset, left);
  return {};
}

}  // namespace crossflash::hip
