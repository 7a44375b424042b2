// SPDX-License-Identifier: MIT
// plan.h: (problem, caps) -> which variant runs, its tiles, its workspace, its steps. Pure: no
// device is touched, so limits of devices that are not here are planned for by inventing caps.
//
//   direct  kernels bind the caller's tensors as they lie
//   staged  pieces of the tensors are gathered into an arena in the workspace, computed there and
//           scattered back: for devices with few bindings, or bindings smaller than the tensors
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "common/backend.h"
#include "vulkan/caps.h"
#include "vulkan/schedule.h"
#include "vulkan/tile.h"

namespace crossflash::vulkan {

// A kernel's box of the problem: at most so much of it is done by one dispatch. In the direct
// variant only the extent the kernel loops over is ever cut.
struct Box {
  std::int64_t batches, heads, members, queries, keys;
};

struct KernelPlan {
  Tile tile;
  shared::uint features = 0;  // CF_SPEC_FEATURES
  shared::cf_problem block;
  shared::cf_options options;  // follows the block where the kernel is built with options
  Box box;
  double flops_per_group = 0;
  std::int64_t walk = 0;  // dBias: tiles of scores that a workgroup sums in one dispatch
  // First words in the work binding: of the tensors in an arena, of delta, mend and the state.
  std::array<std::uint32_t, kTensorCount> arena{};
  std::uint32_t delta = 0, mend = 0, state = 0;
};

struct VulkanPlan {
  Problem problem;
  Caps caps;
  bool staged = false;
  bool options = false;  // the kernels are built with options
  std::array<KernelPlan, kKernelCount> kernels;
  std::uint64_t forward_workspace = 0, backward_workspace = 0;  // bytes
  // Staged: the mend factors of all rows lie in the workspace before the arena, as a tensor.
  Tensor saved_rows{};
  std::uint64_t arena_offset = 0;  // bytes; the work binding starts there
  std::string describe;

  const KernelPlan& kernel(KernelId id) const { return kernels[static_cast<std::size_t>(id)]; }
  KernelPlan& kernel(KernelId id) { return kernels[static_cast<std::size_t>(id)]; }
  std::uint64_t workspace(Pass pass) const {
    return pass == Pass::forward ? forward_workspace : backward_workspace;
  }
};

constexpr std::array<const char*, 2> kVariants = {"direct", "staged"};

// `variant` is one of kVariants, or empty: the first that can.
Status make_plan(const Problem& problem, const Caps& caps, const std::string& variant,
                 VulkanPlan* out);

void emit_steps(const VulkanPlan& plan, Pass pass, Sink& sink);

// The two variants; used by plan.cpp alone.
Status plan_direct(VulkanPlan* plan);
Status plan_staged(VulkanPlan* plan);
void emit_direct(const VulkanPlan& plan, Pass pass, Sink& sink);
void emit_staged(const VulkanPlan& plan, Pass pass, Sink& sink);

// Chooses the kernel's tile for its box and fills in what a workgroup costs.
Status choose_kernel_tile(KernelId id, VulkanPlan* plan);
// Floating-point operations of one workgroup for each element of the loop it walks.
double flops_per_loop_element(KernelId id, const Problem& problem, const Tile& tile);
// How many elements of that loop, whole tiles, one dispatch may walk: for the watchdog's sake, and
// for drivers that limit loops.
std::int64_t longest_loop(KernelId id, const VulkanPlan& plan);
// The parameter blocks but for tensors' strides, and for what lies in an arena.
shared::cf_problem make_block(const Problem& problem);
shared::cf_options make_options(const Problem& problem);
// Whether the problem asks for more than the kernels do that are built without options.
bool needs_options(const Problem& problem);
// Cuts a box's workgroups into dispatches within the device's group count and the watchdog's time.
void emit_groups(const VulkanPlan& plan, KernelId id, KernelId block, const shared::cf_slice& slice,
                 std::int64_t batches, Sink& sink);

}  // namespace crossflash::vulkan
