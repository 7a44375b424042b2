// SPDX-License-Identifier: MIT
// vulkan_plan.cpp: planning for devices that are not here. Over invented limits and awkward
// problems, every step of the schedule must respect the limits, and together they must do the whole
// problem: every row of every output is finished exactly once.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "common/case_line.h"
#include "common/half.h"
#include "vulkan/plan.h"

namespace crossflash::vulkan {
namespace {

Caps invented(const std::string& limits) {
  Caps caps;
  caps.shared_bytes = 65536;
  caps.invocations = 1024;
  caps.storage_buffers = 64;
  caps.groups = 0x7fffffff;
  caps.range = 0xffffffff;
  caps.alignment = 64;
  caps.push_bytes = 256;
  caps.flops_per_dispatch = 64e9;
  EXPECT_TRUE(lower_caps(limits, &caps).ok()) << limits;
  return caps;
}

// Checks each step against the limits and counts how often each output row is finished.
class Auditor : public Sink {
 public:
  explicit Auditor(const VulkanPlan& plan) : plan_(plan) {}

  void copy(const CopyStep& step) override {
    const std::uint64_t size = dtype_size(step.tensor.dtype);
    EXPECT_GE(step.first, 0);
    EXPECT_LE(step.first + step.span, step.tensor.extent());
    EXPECT_LE(static_cast<std::uint64_t>(step.span) * size + plan_.caps.alignment,
              plan_.caps.range);
    const std::uint64_t arena = plan_.workspace(Pass::backward) > 0 && plan_.problem.backward
                                    ? plan_.backward_workspace - plan_.arena_offset
                                    : plan_.forward_workspace;
    EXPECT_LE(4 * static_cast<std::uint64_t>(step.arena_first + step.arena_span), arena);
  }

  void compute(const ComputeStep& step) override {
    const Tile& tile = plan_.kernel(step.kernel).tile;
    EXPECT_LE(step.groups, plan_.caps.groups);
    EXPECT_LE(tile.threads, plan_.caps.invocations);
    if (step.groups > 1) {
      EXPECT_LE(step.flops, plan_.caps.flops_per_dispatch);
    }
    if (step.kernel == KernelId::backward_dot) return;
    EXPECT_LE(tile.shared_bytes(), plan_.caps.shared_bytes);
    if ((step.slice.carry & shared::CF_CARRY_OUT) != 0) return;
    const bool keys = step.kernel == KernelId::backward_dkv;
    const int begin = keys ? step.slice.key_begin : step.slice.query_begin;
    const int end = keys ? step.slice.key_end : step.slice.query_end;
    const auto tiles =
        static_cast<std::uint32_t>((end - begin + static_cast<int>(tile.tile_rows()) - 1) /
                                   static_cast<int>(tile.tile_rows()));
    const std::uint32_t members = keys ? 1 : step.slice.group_count;
    for (std::uint32_t n = step.slice.first_group; n < step.slice.first_group + step.groups; ++n) {
      const std::uint32_t rest = n / tiles;
      const std::uint32_t member = keys ? 0 : step.slice.group_begin + rest % members;
      const std::uint32_t head = step.slice.head_begin + rest / members % step.slice.heads;
      const std::uint32_t batch = step.slice.batch_begin + rest / members / step.slice.heads;
      const int first = begin + static_cast<int>(n % tiles * tile.tile_rows());
      for (int row = first; row < std::min(end, first + static_cast<int>(tile.tile_rows())); ++row)
        ++finished_[{step.kernel, batch, head, member, row}];
    }
  }

  void barrier() override {}

  void expect_all_once(KernelId id) const {
    const Problem& p = plan_.problem;
    const bool keys = id == KernelId::backward_dkv;
    std::size_t rows = 0;
    for (const auto& [key, times] : finished_)
      if (std::get<0>(key) == id) {
        EXPECT_EQ(times, 1);
        ++rows;
      }
    EXPECT_EQ(rows, static_cast<std::size_t>(p.batch *
                                             (keys ? p.heads_kv * p.seq_k : p.heads_q * p.seq_q)));
  }

 private:
  const VulkanPlan& plan_;
  std::map<std::tuple<KernelId, std::uint32_t, std::uint32_t, std::uint32_t, int>, int> finished_;
};

const char* const kLimits[] = {"",
                               "floor",
                               "floor,range=65536,groups=7",
                               "shared=16384",
                               "shared=32768,invocations=256",
                               "flops=1000000",
                               "groups=3,flops=100000",
                               "buffers=7",
                               "loops=3000",
                               "floor,flops=100000,range=1048576"};
const char* const kCases[] = {"batch=2 seq=200x300 heads=8/2 d=64",
                              "batch=3 seq=97 heads=5 d=72 dv=40 causal=top-left",
                              "seq=1x4096 heads=4/1 d=128",
                              "seq=4096x1 heads=2 d=16",
                              "seq=130x70 heads=6/3 d=512 dv=256 type=f16 window=20,0",
                              "batch=2 seq=40x90 heads=2 d=1 type=bf16 causal=bottom-right",
                              "batch=2 seq=64x0 heads=2 d=8",
                              "batch=2 seq=0x64 heads=2 d=8"};

TEST(VulkanPlan, DoesEverythingOnceWithinTheLimits) {
  int planned = 0;
  for (const char* limits : kLimits)
    for (const char* line : kCases)
      for (const char* variant : kVariants) {
        SCOPED_TRACE(std::string(limits) + " | " + line + " | " + variant);
        Case c = default_case();
        ASSERT_TRUE(parse_case(line, &c).ok());
        Problem problem;
        ASSERT_TRUE(check_problem(c.problem, &problem).ok());
        VulkanPlan plan;
        const Caps caps = invented(limits);
        const Status status = make_plan(problem, caps, variant, &plan);
        if (!status.ok()) {
          // Staged refuses only where not even 8 rows of every tensor fit a binding.
          EXPECT_EQ(status.code(), CROSSFLASH_UNSUPPORTED);
          const bool too_wide = problem.d == 512 && caps.range == 65536;
          EXPECT_TRUE(variant == std::string("direct") || too_wide) << status.text();
          continue;
        }
        ++planned;
        EXPECT_LE(plan.forward_workspace, caps.range);
        Auditor auditor(plan);
        emit_steps(plan, Pass::forward, auditor);
        emit_steps(plan, Pass::backward, auditor);
        for (const KernelId id : {KernelId::forward, KernelId::backward_dq, KernelId::backward_dkv})
          auditor.expect_all_once(id);
      }
  EXPECT_GT(planned, 100);
}

TEST(VulkanPlan, WorkspaceGrowsWithTheSequenceAndNotWithItsSquare) {
  Case c = default_case();
  ASSERT_TRUE(parse_case("seq=65536 d=64", &c).ok());
  Problem problem;
  ASSERT_TRUE(check_problem(c.problem, &problem).ok());
  for (const char* variant : kVariants) {
    VulkanPlan plan;
    ASSERT_TRUE(make_plan(problem, invented(""), variant, &plan).ok());
    EXPECT_LE(plan.forward_workspace, std::uint64_t{100} << 20);
    EXPECT_LE(plan.backward_workspace, std::uint64_t{100} << 20);
  }
}

}  // namespace
}  // namespace crossflash::vulkan
