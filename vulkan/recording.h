// SPDX-License-Identifier: MIT
// recording.h: one command buffer with its descriptors, recorded, submitted, and used again.
//
//   begin -> (bind -> push -> dispatch)* with barriers between -> submit -> done or wait
//
// Everything is allocated when a Recording is made, so a run allocates nothing. Runs on the queue
// are ordered, whoever recorded them: each sees all writes of those submitted before it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "vulkan/pipeline.h"

namespace crossflash::vulkan {

// A window of a buffer at a binding of set 0.
struct Binding {
  std::uint32_t binding = 0;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize offset = 0;
  VkDeviceSize range = 0;
  bool uniform = false;
};

// The most a run binds, over all its calls of bind.
struct Capacity {
  std::uint32_t sets = 1;
  std::uint32_t storage_buffers = 0;
  std::uint32_t uniform_buffers = 0;
};

class Recording {
 public:
  static Status create(Context& context, const Capacity& capacity, std::unique_ptr<Recording>* out);
  // Waits for the device to be done with it.
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Must be done; forgets the previous run.
  Status begin();
  // The pipeline and everything it reads and writes: a buffer for each of the kernel's bindings.
  Status bind(const Pipeline& pipeline, std::span<const Binding> bindings);
  // Push constants of the bound pipeline, from their start.
  void push(const void* data, std::uint32_t bytes);
  void dispatch(std::uint32_t groups);
  // Dispatches after it see the writes of those before it.
  void barrier();
  Status submit();

  // Whether the device has finished, or was lost; also true if nothing was submitted.
  bool done() const;
  Status wait();

 private:
  explicit Recording(Context& context) : context_(context) {}
  Status allocate(const Capacity& capacity);

  Context& context_;
  OwnedCommandPool pool_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  OwnedDescriptorPool descriptors_;
  OwnedFence fence_;
  const Pipeline* bound_ = nullptr;
  bool submitted_ = false;
};

}  // namespace crossflash::vulkan
