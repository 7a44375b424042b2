// SPDX-License-Identifier: MIT
// device.h: an open GPU as the front end sees it: memory, one stream of its own, support queries,
// plans. Every call makes the GPU current and puts the caller's back.
#pragma once

#include <string>

#include "common/backend.h"
#include "hip/caps.h"
#include "hip/memory.h"
#include "hip/runtime.h"

namespace crossflash::hip {

class HipDevice : public Device {
 public:
  // `options` has been checked by the backend but for its variant and limits.
  static Status create(DeviceInfo info, Caps caps, const DeviceOptions& options,
                       std::unique_ptr<Device>* out);
  ~HipDevice() override;

  const DeviceInfo& info() const override { return info_; }
  std::span<const char* const> variants() const override;
  Status supports(const Problem& problem) const override;
  Status plan(const Problem& problem, std::unique_ptr<Plan>* out) override;

  Status allocate(std::uint64_t bytes, crossflash_buffer* out) override;
  void release(crossflash_buffer buffer) override;
  Status upload(crossflash_buffer destination, const void* source, std::uint64_t bytes) override;
  Status download(void* destination, crossflash_buffer source, std::uint64_t bytes) override;
  Status wait() override;

  int ordinal() const { return info_.index; }
  hipStream_t stream() const { return stream_; }
  const Buffers& buffers() const { return buffers_; }

 private:
  HipDevice() = default;

  DeviceInfo info_;
  Caps caps_;
  std::string variant_;
  hipStream_t stream_ = nullptr;
  Buffers buffers_;
};

}  // namespace crossflash::hip
