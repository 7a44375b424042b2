// SPDX-License-Identifier: MIT
// recording_pool.h: the recordings of one plan, shared by the threads that run it. Invariant: a
// recording has one user at a time, and is handed out when the device has finished with it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "vulkan/recording.h"

namespace crossflash::vulkan {

class RecordingPool {
 public:
  RecordingPool(Context& context, const Capacity& capacity)
      : context_(context), capacity_(capacity) {}
  RecordingPool(const RecordingPool&) = delete;
  RecordingPool& operator=(const RecordingPool&) = delete;

  // A recording that nobody else touches until the lease ends, which is after submit and need not
  // be after the device has finished.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { swap(other); }
    Lease& operator=(Lease&& other) noexcept {
      swap(other);
      return *this;
    }
    ~Lease() {
      if (pool_ != nullptr) pool_->give_back(recording_);
    }
    Recording* operator->() const { return recording_; }
    Recording& operator*() const { return *recording_; }

   private:
    friend class RecordingPool;
    Lease(RecordingPool* pool, Recording* recording) : pool_(pool), recording_(recording) {}
    void swap(Lease& other) {
      std::swap(pool_, other.pool_);
      std::swap(recording_, other.recording_);
    }
    RecordingPool* pool_ = nullptr;
    Recording* recording_ = nullptr;
  };

  // An idle one; a new one if all are busy; past kMost of those, the oldest once it is done.
  Status acquire(Lease* out);

 private:
  static constexpr std::size_t kMost = 64;

  Recording* take();
  void give_back(Recording* recording);

  Context& context_;
  const Capacity capacity_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Recording>> all_;
  std::vector<Recording*> free_;  // not leased, the one given back longest ago first
};

}  // namespace crossflash::vulkan
