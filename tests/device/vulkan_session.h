// SPDX-License-Identifier: MIT
// vulkan_session.h: everything a program does with the backend, once, over the invented driver:
// open, plan, allocate, upload, forward, backward, wait, download, save and load the cache, close.
#pragma once

#include <string>

#include "common/backend.h"
#include "tests/device/vulkan_mock.h"

namespace crossflash::mock {

struct Session {
  std::string limits, variant;
  std::int64_t batch = 2, seq_q = 40, seq_k = 56;
  crossflash_dtype dtype = CROSSFLASH_F16;

  int threads = 1;  // share device and plan, each with buffers of its own

  // Ends at the first failure; whatever happened, everything is destroyed when it returns.
  Status run() const;

  // What run() notes on the way.
  mutable std::string describe;
  mutable std::size_t calls = 0;  // of the driver, until only closing was left
};

// A device on which the direct variant fits: everything else at the floor.
DeviceSpec roomy_device();

}  // namespace crossflash::mock
