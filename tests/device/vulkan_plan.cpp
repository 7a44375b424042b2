// SPDX-License-Identifier: MIT
// vulkan_plan.cpp: planning for devices that are not here. Over invented limits and awkward
// problems, every step of the schedule must respect the limits, and together they must do the whole
// problem: every row of every output is finished exactly once.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <tuple>

#include "common/case_line.h"
#include "common/half.h"
#include "vulkan/kernels.h"
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

// The problem of a case line, with room for what the line leaves to the data: pages, packed rows.
Problem problem_of(const std::string& line) {
  Case c = default_case();
  EXPECT_TRUE(parse_case(line, &c).ok()) << line;
  if (c.problem.page_size > 0) c.problem.pages = 64;
  c.problem.total_q = c.problem.batch * c.problem.seq_q;
  c.problem.total_k = c.problem.batch * c.problem.seq_k;
  Problem problem{};
  const Status status = check_problem(c.problem, &problem);
  EXPECT_TRUE(status.ok()) << line << ": " << status.text();
  return problem;
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
    if (step.option == OptionId::grad_bias) bias_elements_ += step.elements;
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
    if (step.kernel == KernelId::backward_sink) return add_sink(step.slice, step.groups);
    EXPECT_LE(tile.shared_bytes(), plan_.caps.shared_bytes);
    if ((step.slice.carry & shared::CF_CARRY_OUT) != 0) return;
    if (step.kernel == KernelId::backward_bias) return add_bias(step.slice, step.groups);
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

  // Every element of the gradient is written once, and every row is in that of a sink once.
  void expect_gradients_of_options() const {
    const Problem& p = plan_.problem;
    if (plan_.staged) {
      EXPECT_EQ(bias_elements_, static_cast<std::uint64_t>(p.option_extent(OptionId::grad_bias)));
    } else if (p.option_extent(OptionId::grad_bias) > 0) {
      const Tile& tile = plan_.kernel(KernelId::backward_bias).tile;
      const ScoreStrides& s = p.bias.grad_strides;
      const auto tiles = [](std::int64_t stride, std::int64_t extent, std::int64_t unit) {
        return static_cast<std::size_t>(stride != 0 ? (extent + unit - 1) / unit : 1);
      };
      EXPECT_EQ(bias_tiles_.size(), tiles(s.batch, p.batch, 1) * tiles(s.head, p.heads_q, 1) *
                                        tiles(s.seq_q, p.seq_q, tile.tile_rows()) *
                                        tiles(s.seq_k, p.seq_k, tile.tile_cols()));
      for (const auto& [group, times] : bias_tiles_) EXPECT_EQ(times, 1) << group;
    }
    if (p.sink_gradient) {
      EXPECT_EQ(sink_rows_.size(), static_cast<std::size_t>(p.batch * p.heads_q * p.seq_q));
      for (const auto& [row, times] : sink_rows_) EXPECT_EQ(times, 1);
    }
  }

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
  void add_bias(const shared::cf_slice& slice, std::uint32_t groups) {
    if (plan_.staged) return;  // counted where it is scattered
    const std::uint64_t state = std::uint64_t{groups} *
                                plan_.kernel(KernelId::backward_bias).tile.tile_rows() *
                                plan_.kernel(KernelId::backward_bias).tile.tile_cols();
    if (slice.carry != 0) {
      EXPECT_LE(4 * (slice.base_state + state), plan_.backward_workspace);
    }
    if ((slice.carry & shared::CF_CARRY_OUT) != 0) return;
    for (std::uint32_t n = 0; n < groups; ++n) ++bias_tiles_[slice.first_group + n];
  }

  void add_sink(const shared::cf_slice& slice, std::uint32_t groups) {
    for (std::uint32_t n = slice.first_group; n < slice.first_group + groups; ++n) {
      const auto group = static_cast<std::uint32_t>(plan_.problem.group());
      const std::uint32_t h = plan_.staged ? (slice.head_begin + n) * group + slice.group_begin : n;
      for (std::uint32_t b = slice.batch_begin; b < slice.batch_begin + slice.group_count; ++b)
        for (int i = slice.query_begin; i < slice.query_end; ++i) ++sink_rows_[{h, b, i}];
    }
  }

  const VulkanPlan& plan_;
  std::map<std::uint32_t, int> bias_tiles_;
  std::uint64_t bias_elements_ = 0;
  std::map<std::tuple<std::uint32_t, std::uint32_t, int>, int> sink_rows_;
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
                              "batch=2 seq=0x64 heads=2 d=8",
                              "batch=2 seq=200x300 heads=8/2 d=64 bias=hqk alibi sink type=f16",
                              "batch=2 seq=200x300 heads=4/2 d=64 dbias dsink",
                              "batch=3 seq=500x300 heads=4/2 d=32 bias=bk dbias type=bf16",
                              "batch=2 seq=700 heads=4 d=40 mask=hqk causal=top-left",
                              "batch=3 seq=300x200 heads=4/2 d=32 rows=lengths/offsets dsink",
                              "batch=2 seq=64 heads=2 d=32 dropout=0.3 device-seed",
                              "batch=2 seq=1x400 heads=4 d=64 page=16 passes=forward"};

// Whether only the direct variant has the option.
bool only_direct(const Problem& p) { return p.sequences.any() || p.pages.size > 0; }

TEST(VulkanPlan, DoesEverythingOnceWithinTheLimits) {
  int planned = 0;
  for (const char* limits : kLimits)
    for (const char* line : kCases)
      for (const char* variant : kVariants) {
        SCOPED_TRACE(std::string(limits) + " | " + line + " | " + variant);
        const Problem problem = problem_of(line);
        VulkanPlan plan;
        const Caps caps = invented(limits);
        const Status status = make_plan(problem, caps, variant, &plan);
        if (!status.ok()) {
          // Staged refuses only where not even 8 rows of every tensor fit a binding.
          EXPECT_EQ(status.code(), CROSSFLASH_UNSUPPORTED);
          const bool too_wide = problem.d == 512 && caps.range == 65536;
          EXPECT_TRUE(variant == std::string("direct") || too_wide || only_direct(problem))
              << status.text();
          continue;
        }
        ++planned;
        EXPECT_LE(plan.forward_workspace, caps.range);
        Auditor auditor(plan);
        emit_steps(plan, Pass::forward, auditor);
        auditor.expect_all_once(KernelId::forward);
        if (!problem.backward) continue;
        emit_steps(plan, Pass::backward, auditor);
        for (const KernelId id : {KernelId::backward_dq, KernelId::backward_dkv})
          auditor.expect_all_once(id);
        auditor.expect_gradients_of_options();
      }
  EXPECT_GT(planned, 100);
}

TEST(VulkanPlan, WorkspaceGrowsWithTheSequenceAndNotWithItsSquare) {
  const Problem problem = problem_of("seq=65536 d=64");
  for (const char* variant : kVariants) {
    VulkanPlan plan;
    ASSERT_TRUE(make_plan(problem, invented(""), variant, &plan).ok());
    EXPECT_LE(plan.forward_workspace, std::uint64_t{100} << 20);
    EXPECT_LE(plan.backward_workspace, std::uint64_t{100} << 20);
  }
}

// What a device or variant cannot do is refused with the field that asks for it.
TEST(VulkanPlan, RefusesOptionsByName) {
  struct Refusal {
    const char *limits, *line, *names;
  };
  const Refusal refusals[] = {
      {"floor", "batch=2 seq=40 d=16 rows=lengths", "rows_q is 1"},
      {"floor", "batch=2 seq=40 d=16 rows=all/offsets", "rows_k is 2"},
      {"floor", "seq=1x40 d=16 page=16 passes=forward", "page_size is 16"},
      {"range=65536", "seq=200 d=16 rows=lengths dbias", "bias spans 160000 bytes"}};
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.line);
    const Problem problem = problem_of(refusal.line);
    VulkanPlan plan;
    const Status status = make_plan(problem, invented(refusal.limits), "", &plan);
    EXPECT_EQ(status.code(), CROSSFLASH_UNSUPPORTED);
    EXPECT_NE(status.text().find(refusal.names), std::string::npos) << status.text();
  }
}

// Planning says how many buffers the kernels bind; each pass must fit what it says.
TEST(VulkanPlan, CountsTheBuffersOfItsKernels) {
  for (const char* line : {"seq=40 d=16", "seq=40 d=16 passes=forward", "seq=40 d=16 alibi"}) {
    SCOPED_TRACE(line);
    const Problem problem = problem_of(line);
    const bool options = needs_options(problem);
    std::size_t most = 0;
    for (std::size_t n = 0; n < (options ? kKernelCount : 4); ++n)
      if (const auto id = static_cast<KernelId>(n); problem.backward || id == KernelId::forward)
        most = std::max(most, attention_kernel(id, false, options).storage_bindings.size());
    VulkanPlan plan;
    Caps caps = invented("");
    caps.storage_buffers = static_cast<std::uint32_t>(most);
    EXPECT_TRUE(make_plan(problem, caps, "direct", &plan).ok());
    caps.storage_buffers -= 1;
    EXPECT_FALSE(make_plan(problem, caps, "direct", &plan).ok());
  }
}

// What the forward kernel of a plan is compiled for.
std::array<std::uint32_t, 11> forward_constants(const std::string& line, const Caps& caps) {
  VulkanPlan plan;
  const Status status = make_plan(problem_of(line), caps, "direct", &plan);
  EXPECT_TRUE(status.ok()) << line << ": " << status.text();
  const KernelPlan& kernel = plan.kernel(KernelId::forward);
  return kernel.tile.constants(shared::CF_F32, kernel.features);
}

// A driver on a CPU compiles for longer than a short run takes.
TEST(VulkanPlan, ShortRunsOnACpuShareKernels) {
  Caps caps = invented("");
  const std::pair<const char*, const char*> shorts[] = {
      {"seq=7x300 d=33 causal=top-left", "batch=3 seq=100 heads=4/2 d=64"},
      {"seq=40 d=64 alibi", "seq=90x10 d=50 mask=qk sink dropout=0.5"}};
  for (const auto& [one, other] : shorts) {
    SCOPED_TRACE(one);
    caps.software = true;
    EXPECT_EQ(forward_constants(one, caps), forward_constants(other, caps));
    caps.software = false;
    EXPECT_NE(forward_constants(one, caps), forward_constants(other, caps));
  }
  // Long ones, and many that a shared tile would be too large for, have what suits them.
  for (const char* line : {"heads=64 seq=2048 d=64", "batch=65537 seq=2 d=64"}) {
    SCOPED_TRACE(line);
    caps.software = true;
    EXPECT_NE(forward_constants(line, caps), forward_constants("seq=40 d=64", caps));
  }
}

}  // namespace
}  // namespace crossflash::vulkan
