// SPDX-License-Identifier: MIT
#include "hip/device.h"

#include <algorithm>

#include "hip/check.h"
#include "hip/runner.h"
#include "hip/units.h"

namespace crossflash::hip {

Status HipDevice::create(DeviceInfo info, Caps caps, const DeviceOptions& options,
                         std::unique_ptr<Device>* out) {
  if (!options.variant.empty() &&
      std::find(kVariants.begin(), kVariants.end(), options.variant) == kVariants.end())
    return unsupported("variant is \"{}\"; hip has specialised, general and split",
                       options.variant);
  if (!options.limits.empty())
    return unsupported("limits is \"{}\"; the hip backend has no limits that could be lowered",
                       options.limits);
  std::unique_ptr<HipDevice> device(new HipDevice);
  device->info_ = std::move(info);
  device->caps_ = std::move(caps);
  device->variant_ = options.variant;
  const CurrentDevice current(device->ordinal());
  CROSSFLASH_TRY(current.status());
  CROSSFLASH_TRY(check(hipStreamCreateWithFlags(&device->stream_, hipStreamNonBlocking),
                       "hipStreamCreateWithFlags"));
  *out = std::move(device);
  return {};
}

HipDevice::~HipDevice() {
  const CurrentDevice current(ordinal());
  if (stream_ == nullptr) return;
  static_cast<void>(hipStreamSynchronize(stream_));
  static_cast<void>(hipStreamDestroy(stream_));
}

std::span<const char* const> HipDevice::variants() const { return kVariants; }

Status HipDevice::supports(const Problem& problem) const {
  HipPlan plan;
  return make_plan(problem, caps_, units(), variant_, &plan);
}

Status HipDevice::plan(const Problem& problem, std::unique_ptr<Plan>* out) {
  HipPlan plan;
  CROSSFLASH_TRY(make_plan(problem, caps_, units(), variant_, &plan));
  return Runner::create(*this, std::move(plan), out);
}

Status HipDevice::allocate(std::uint64_t bytes, crossflash_buffer* out) {
  const CurrentDevice current(ordinal());
  CROSSFLASH_TRY(current.status());
  return buffers_.create(bytes, out);
}

void HipDevice::release(crossflash_buffer buffer) {
  const CurrentDevice current(ordinal());
  buffers_.destroy(buffer);
}

Status HipDevice::upload(crossflash_buffer destination, const void* source, std::uint64_t bytes) {
  CROSSFLASH_TRY(buffers_.check_stretch("destination", destination, bytes));
  const CurrentDevice current(ordinal());
  CROSSFLASH_TRY(current.status());
  CROSSFLASH_TRY(
      check(hipMemcpyAsync(address(destination), source, bytes, hipMemcpyHostToDevice, stream_),
            "hipMemcpyAsync"));
  return check(hipStreamSynchronize(stream_), "hipStreamSynchronize");
}

Status HipDevice::download(void* destination, crossflash_buffer source, std::uint64_t bytes) {
  CROSSFLASH_TRY(buffers_.check_stretch("source", source, bytes));
  const CurrentDevice current(ordinal());
  CROSSFLASH_TRY(current.status());
  CROSSFLASH_TRY(
      check(hipMemcpyAsync(destination, address(source), bytes, hipMemcpyDeviceToHost, stream_),
            "hipMemcpyAsync"));
  return check(hipStreamSynchronize(stream_), "hipStreamSynchronize");
}

Status HipDevice::wait() {
  const CurrentDevice current(ordinal());
  CROSSFLASH_TRY(current.status());
  return check(hipStreamSynchronize(stream_), "hipStreamSynchronize");
}

}  // namespace crossflash::hip
