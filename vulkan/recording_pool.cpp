// SPDX-License-Identifier: MIT
#include "vulkan/recording_pool.h"

#include <algorithm>

namespace crossflash::vulkan {

Status RecordingPool::acquire(Lease* out) {
  Recording* recording = take();
  if (recording == nullptr) {
    std::unique_ptr<Recording> made;
    CROSSFLASH_TRY(Recording::create(context_, capacity_, &made));
    recording = made.get();
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(made));
    free_.reserve(all_.size());  // so that giving back allocates nothing
  }
  *out = Lease(this, recording);
  return recording->wait();
}

Recording* RecordingPool::take() {
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(free_.begin(), free_.end(),
                            [](const Recording* recording) { return recording->done(); });
  if (found == free_.end() && all_.size() >= kMost) found = free_.begin();
  if (found == free_.end()) return nullptr;
  Recording* recording = *found;
  free_.erase(found);
  return recording;
}

void RecordingPool::give_back(Recording* recording) {
  const std::lock_guard lock(mutex_);
  free_.push_back(recording);
}

}  // namespace crossflash::vulkan
