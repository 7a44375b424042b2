// SPDX-License-Identifier: MIT
// workspace.h: the workspace of a plan's runs that bring none. Runs on one stream are ordered by
// it; where the stream changes, the new one waits for the old one's event. A run that is being
// captured in a graph can wait for nothing outside of the graph: see crossflash/hip.h.
#pragma once

#include <mutex>

#include "hip/check.h"
#include "hip/memory.h"

namespace crossflash::hip {

class Workspace {
 public:
  ~Workspace();
  Status create(std::uint64_t bytes);
  std::byte* data() const { return memory_.data(); }

  // Enqueues by calling `enqueue` once the stream is behind every earlier use. Locks, since another
  // thread's kernels between ours would overwrite what ours hand each other.
  template <typename Enqueue>
  Status use(hipStream_t stream, Enqueue&& enqueue) {
    const std::lock_guard lock(mutex_);
    hipStreamCaptureStatus capture{};
    CROSSFLASH_TRY(check(hipStreamIsCapturing(stream, &capture), "hipStreamIsCapturing"));
    const bool ordered = capture == hipStreamCaptureStatusNone;
    if (ordered && used_ && stream != last_)
      CROSSFLASH_TRY(check(hipStreamWaitEvent(stream, done_, 0), "hipStreamWaitEvent"));
    CROSSFLASH_TRY(enqueue());
    if (!ordered) return {};
    used_ = true;
    last_ = stream;
    return check(hipEventRecord(done_, stream), "hipEventRecord");
  }

 private:
  std::mutex mutex_;
  Memory memory_;
  hipEvent_t done_ = nullptr;
  bool used_ = false;
  hipStream_t last_ = nullptr;
};

}  // namespace crossflash::hip
