// SPDX-License-Identifier: MIT
// plan.h: (problem, caps, compiled units) -> which kernels run, with what, in how much workspace.
// Pure: no device is touched, so that plans for GPUs that are not here can be made and tested.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/backend.h"
#include "hip/caps.h"
#include "hip/units.h"

namespace crossflash::hip {

// Regions start at multiples of this, which is what grad_all adds at a time; the workspace itself
// may start at any f32.
constexpr std::uint64_t kRegionBytes = 16;

// How rows of the table are chosen, if by name: the first that can or only those that take any
// score, with forward as one kernel; or forward over split keys, even where that takes longer.
constexpr std::array<const char*, 3> kVariants = {"specialised", "general", "split"};

struct Step {
  const Variant* kernel;
  std::int64_t blocks;  // 0: nothing to launch
};

// A stretch of the workspace, for one member of KernelArguments. The list of them is what both the
// size and the pointers come from.
struct Region {
  KernelRows KernelArguments::*rows;
  std::uint64_t offset;  // bytes
};

struct HipPlan {
  Problem problem;
  KernelArguments arguments;  // but for pointers and the random state
  std::vector<Step> forward, backward, append;
  std::vector<Region> forward_regions, backward_regions;
  // Bytes, with what aligning the start may take.
  std::uint64_t forward_workspace = 0, backward_workspace = 0;
  std::string describe;

  const std::vector<Step>& steps(Pass pass) const {
    return pass == Pass::forward ? forward : pass == Pass::backward ? backward : append;
  }
  // Append needs none, and no problem has both it and backward.
  const std::vector<Region>& regions(Pass pass) const {
    return pass == Pass::forward ? forward_regions : backward_regions;
  }
  std::uint64_t workspace(Pass pass) const {
    return pass == Pass::forward ? forward_workspace : backward_workspace;
  }
};

// `variant` is one of kVariants, or empty: the first row that can, and split keys where they pay.
Status make_plan(const Problem& problem, const Caps& caps, std::span<const Unit> units,
                 const std::string& variant, HipPlan* out);

}  // namespace crossflash::hip
