// SPDX-License-Identifier: MIT
// check.h: a runtime call's error code as a Status, and the device that calls go to. The runtime
// keeps a current device for each thread, which is the caller's: it is put back after every call.
#pragma once

#include "common/status.h"
#include "hip/runtime.h"

namespace crossflash::hip {

inline Status check(hipError_t error, const char* what) {
  if (error == hipSuccess) return {};
  static_cast<void>(hipGetLastError());  // or the next launch would report it once more
  return device_error("{} failed: {}", what, hipGetErrorString(error));
}

// Makes `ordinal` the thread's current device as long as it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) {
    status_ = check(hipGetDevice(&previous_), "hipGetDevice");
    if (!status_.ok() || previous_ == ordinal) return;
    status_ = check(hipSetDevice(ordinal), "hipSetDevice");
    changed_ = status_.ok();
  }
  ~CurrentDevice() {
    if (changed_) static_cast<void>(hipSetDevice(previous_));  // it has been current before
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  const Status& status() const { return status_; }

 private:
  int previous_ = 0;
  bool changed_ = false;
  Status status_;
};

}  // namespace crossflash::hip
