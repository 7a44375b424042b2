// SPDX-License-Identifier: MIT
// caps.h: what planning knows about a Vulkan device, as plain numbers. Planning is a function of
// (problem, caps), so limits of devices that are not here are tested by inventing them; lower_caps
// is how a user or a test invents them. Invariant: a Caps never promises more than the device has.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace crossflash::vulkan {

struct Caps {
  std::uint32_t shared_bytes = 0;     // shared memory of a workgroup
  std::uint32_t invocations = 0;      // of a workgroup along x
  std::uint32_t storage_buffers = 0;  // storage buffers one kernel can bind
  std::uint32_t groups = 0;           // workgroups of a dispatch along x
  std::uint64_t range = 0;            // bytes one storage binding can cover
  std::uint64_t alignment = 1;        // of a storage binding's offset, in bytes
  std::uint32_t push_bytes = 0;
  double flops_per_dispatch = 0;  // so that a dispatch stays far from a watchdog's 2 s
  // Loop iterations of one invocation in a dispatch, all loops together. Mesa's llvmpipe leaves every
  // loop once they are more than 65535, without a word.
  std::uint32_t loop_iterations = 0xffffffff;
  bool software = false;          // the "device" is a CPU
};

// Lowers `caps` to a comma-separated list of "floor" (what Vulkan guarantees everywhere) and
// "name=value" with names shared, invocations, buffers, groups, range, flops and loops. A value above the
// device's own changes nothing; an empty string neither.
Status lower_caps(const std::string& limits, Caps* caps);

}  // namespace crossflash::vulkan
