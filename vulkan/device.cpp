// SPDX-License-Identifier: MIT
#include "vulkan/device.h"

#include <algorithm>

#include "common/half.h"
#include "vulkan/plan.h"
#include "vulkan/runner.h"

namespace crossflash::vulkan {

Status VulkanDevice::create(std::shared_ptr<const Instance> instance, DeviceInfo info,
                            const DeviceOptions& options, std::unique_ptr<Device>* out) {
  if (!options.variant.empty() &&
      std::find(kVariants.begin(), kVariants.end(), options.variant) == kVariants.end())
    return unsupported("variant is \"{}\"; vulkan has direct and staged", options.variant);
  std::unique_ptr<VulkanDevice> device(new VulkanDevice);
  device->info_ = std::move(info);
  device->variant_ = options.variant;
  CROSSFLASH_TRY(Context::create(std::move(instance), options.index, &device->context_));
  device->caps_ = device->context_->physical().caps;
  CROSSFLASH_TRY(lower_caps(options.limits, &device->caps_));
  // Kernels read four words at a time where they can.
  device->caps_.alignment = std::max<std::uint64_t>(device->caps_.alignment, 16);
  device->pipelines_ = std::make_unique<Pipelines>(*device->context_);
  device->transfer_ = std::make_unique<Transfer>(*device->context_);
  *out = std::move(device);
  return {};
}

VulkanDevice::~VulkanDevice() {
  if (context_) context_->settle();
}

std::span<const char* const> VulkanDevice::variants() const { return kVariants; }

Status VulkanDevice::supports(const Problem& problem) const {
  VulkanPlan plan;
  return make_plan(problem, caps_, variant_, &plan);
}

Status VulkanDevice::plan(const Problem& problem, std::unique_ptr<Plan>* out) {
  VulkanPlan plan;
  CROSSFLASH_TRY(make_plan(problem, caps_, variant_, &plan));
  std::shared_ptr<Buffer> workspace;
  CROSSFLASH_TRY(
      shared_workspace(std::max(plan.forward_workspace, plan.backward_workspace), &workspace));
  return Runner::create(*context_, *this, *pipelines_, *transfer_, std::move(plan),
                        std::move(workspace), out);
}

// One workspace serves every plan: runs on the queue are ordered. A larger one replaces it; plans
// made before keep theirs.
Status VulkanDevice::shared_workspace(std::uint64_t bytes, std::shared_ptr<Buffer>* out) {
  const std::lock_guard lock(mutex_);
  if (!workspace_ || workspace_->bytes() < bytes) {
    std::unique_ptr<Buffer> larger;
    CROSSFLASH_TRY(Buffer::create(*context_, bytes, Buffer::Kind::storage, &larger));
    workspace_ = std::move(larger);
  }
  *out = workspace_;
  return {};
}

Status VulkanDevice::allocate(std::uint64_t bytes, crossflash_buffer* out) {
  std::unique_ptr<Buffer> buffer;
  CROSSFLASH_TRY(Buffer::create(*context_, bytes, Buffer::Kind::storage, &buffer));
  void* handle = reinterpret_cast<void*>(buffer->handle());
  const std::lock_guard lock(mutex_);
  buffers_[handle] = std::move(buffer);
  *out = {handle, 0};
  return {};
}

void VulkanDevice::release(crossflash_buffer buffer) {
  context_->settle();  // work in flight may use it
  const std::lock_guard lock(mutex_);
  buffers_.erase(buffer.handle);
}

Status VulkanDevice::find(const char* name, crossflash_buffer buffer, std::uint64_t bytes,
                          const Buffer** out) const {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(buffer.handle);
  *out = found == buffers_.end() ? nullptr : found->second.get();
  if (*out == nullptr) return {};
  const std::uint64_t size = (*out)->bytes();
  if (buffer.offset > size || bytes > size - buffer.offset)
    return invalid("{} needs {} bytes from offset {}; its buffer has {}", name, bytes,
                   buffer.offset, size);
  return {};
}

Status VulkanDevice::check_stretch(const char* name, crossflash_buffer buffer,
                                   std::uint64_t bytes) const {
  const Buffer* ours = nullptr;
  return find(name, buffer, bytes, &ours);
}

Status VulkanDevice::upload(crossflash_buffer destination, const void* source,
                            std::uint64_t bytes) {
  const Buffer* ours = nullptr;
  CROSSFLASH_TRY(find("destination", destination, bytes, &ours));
  if (ours == nullptr) return invalid("destination is not a buffer of this device");
  return transfer_->upload(*ours, destination.offset, source, bytes);
}

Status VulkanDevice::download(void* destination, crossflash_buffer source, std::uint64_t bytes) {
  const Buffer* ours = nullptr;
  CROSSFLASH_TRY(find("source", source, bytes, &ours));
  if (ours == nullptr) return invalid("source is not a buffer of this device");
  return transfer_->download(destination, *ours, source.offset, bytes);
}

Status VulkanDevice::wait() { return context_->wait_idle(); }

Status VulkanDevice::save_cache(std::vector<std::byte>* out) { return context_->cache().save(out); }

Status VulkanDevice::load_cache(std::span<const std::byte> blob) {
  return context_->cache().load(blob);
}

}  // namespace crossflash::vulkan
