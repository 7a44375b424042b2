// SPDX-License-Identifier: MIT
// plan.cpp: which kernels the HIP backend would launch on GPUs that are not here, out of an
// invented table: the first row that can, reasons where none can, and one list of the workspace.
#include "hip/plan.h"

#include <gtest/gtest.h>

#include <cmath>

namespace crossflash::hip {
namespace {

constexpr KernelPass kPasses[] = {KernelPass::forward,   KernelPass::row_dot,
                                  KernelPass::grad_q,    KernelPass::grad_kv,
                                  KernelPass::grad_bias, KernelPass::grad_sink};
constexpr KernelPass kFusedPasses[] = {KernelPass::grad_all, KernelPass::cast_grad_q};

// Rows for f16: for each pass a special and a general one of head sizes to 128, a general one of
// 256, and one of 512 whose blocks own slices of 256 columns. Row dots, casts and the gradients of
// options have one row, and what makes all gradients at once has none of 512.
std::vector<Variant> unit_of(const char* arch, int shared_bytes,
                             std::span<const KernelPass> passes = kPasses) {
  std::vector<Variant> rows;
  for (const KernelPass pass : passes) {
    const auto add = [&](const char* name, int head, bool general, int slice = 0) {
      rows.push_back({arch, name, pass, shared::CF_F16, head, general, 64, 32, slice, 128,
                      shared_bytes, nullptr, nullptr});
    };
    if (pass == KernelPass::row_dot || pass == KernelPass::cast_grad_q ||
        pass == KernelPass::grad_bias || pass == KernelPass::grad_sink) {
      add("of_any_head", 512, true);
      continue;
    }
    add("special_128", 128, false);
    add("general_128", 128, true);
    add("general_256", 256, true);
    if (pass != KernelPass::grad_all) add("wide_512", 512, true, 256);
  }
  return rows;
}

class HipPlanning : public ::testing::Test {
 protected:
  HipPlanning() {
    crossflash_problem_init(&problem_);
    problem_.passes = CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD;
    problem_.dtype = CROSSFLASH_F16;
    problem_.batch = 2;
    problem_.seq_q = 100;
    problem_.seq_k = 130;
    problem_.heads_q = 4;
    problem_.heads_kv = 2;
    problem_.d = problem_.d_v = 64;
    caps_ = {"sm_90", 100 << 10, 1024, 0x7fffffff, std::int64_t{1} << 40, 100};
  }

  Status plan(const std::string& variant = {}) {
    Problem checked;
    CROSSFLASH_TRY(check_problem(problem_, &checked));
    plan_ = {};
    return make_plan(checked, caps_, units(), variant, &plan_);
  }
  virtual std::span<const Unit> units() const { return units_; }
  void expect_refused(const Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), CROSSFLASH_UNSUPPORTED);
    EXPECT_NE(status.text().find(text), std::string::npos) << status.text();
  }

  const std::vector<Variant> new_rows_ = unit_of("sm_90", 90 << 10);
  const std::vector<Variant> old_rows_ = unit_of("sm_80", 40 << 10);
  const Variants new_unit_ = new_rows_, old_unit_ = old_rows_;
  std::vector<Unit> units_ = {{&new_unit_, "90-real"}, {&old_unit_, "80;90a-real"}};
  crossflash_problem problem_{};
  Caps caps_;
  HipPlan plan_;
};

TEST_F(HipPlanning, TakesTheFirstRowThatCan) {
  ASSERT_TRUE(plan().ok());
  EXPECT_STREQ(plan_.forward.at(0).kernel->arch, "sm_90");
  EXPECT_STREQ(plan_.forward.at(0).kernel->name, "special_128");
  problem_.dropout = 0.5f;
  ASSERT_TRUE(plan().ok());
  EXPECT_STREQ(plan_.forward.at(0).kernel->name, "general_128");
  problem_.d_v = 129;
  ASSERT_TRUE(plan().ok());
  EXPECT_STREQ(plan_.forward.at(0).kernel->name, "general_256");
  problem_.d_v = 257;
  ASSERT_TRUE(plan().ok());
  EXPECT_STREQ(plan_.forward.at(0).kernel->name, "wide_512");
}

TEST_F(HipPlanning, EveryOptionTakesAGeneralRow) {
  problem_.passes = CROSSFLASH_FORWARD;
  const crossflash_problem plain = problem_;
  const auto expect_general = [&](const char* option, auto set) {
    problem_ = plain;
    set(problem_);
    ASSERT_TRUE(plan().ok()) << option;
    EXPECT_STREQ(plan_.forward.at(0).kernel->name, "general_128") << option;
    EXPECT_EQ(plan_.forward.at(0).blocks, 2 * 4 * 2) << option;  // of the longest sequences
    expect_refused(plan("specialised"), "special_128 takes a positive scale and no options");
  };
  using P = crossflash_problem;
  expect_general("scale", [](P& p) { p.scale = -1.0f; });
  expect_general("softcap", [](P& p) { p.softcap = 30.0f; });
  expect_general("alibi", [](P& p) { p.alibi = 1; });
  expect_general("sink", [](P& p) { p.sink = CROSSFLASH_GIVEN; });
  expect_general("bias", [](P& p) { p.bias = CROSSFLASH_GIVEN; });
  expect_general("mask", [](P& p) { p.mask = 1; });
  expect_general("rows_q", [](P& p) { p.rows_q = CROSSFLASH_ROWS_LENGTHS; });
  expect_general("rows_k", [](P& p) {
    p.rows_k = CROSSFLASH_ROWS_OFFSETS;
    p.total_k = 150;
  });
  expect_general("page_size", [](P& p) {
    p.page_size = 16;
    p.pages = 20;
  });
}

TEST_F(HipPlanning, WhatKernelsAreToldOfSequencesAndPages) {
  problem_.passes = CROSSFLASH_FORWARD;
  problem_.rows_q = CROSSFLASH_ROWS_OFFSETS;
  problem_.total_q = 170;
  problem_.rows_k = CROSSFLASH_ROWS_LENGTHS;
  problem_.row_bits = 64;
  problem_.page_size = 48;
  problem_.pages = 7;
  problem_.causal = CROSSFLASH_CAUSAL_TOP_LEFT;
  ASSERT_TRUE(plan().ok());
  const KernelOptions& o = plan_.arguments.options;
  EXPECT_TRUE(o.rows_q.given && o.rows_q.offsets && o.rows_q.wide);
  EXPECT_EQ(o.rows_q.total, 170);
  EXPECT_TRUE(o.rows_k.given && !o.rows_k.offsets && o.rows_k.wide);
  EXPECT_TRUE(o.top_left);
  EXPECT_EQ(o.pages.size, 48);
  EXPECT_EQ(o.pages.count, 7);
  EXPECT_EQ(o.pages.of_sequence, 3);                // of 130 keys
  EXPECT_EQ(plan_.arguments.lse.head, 170);         // [heads_q, total_q]
  EXPECT_EQ(plan_.arguments.k.batch, 48 * 2 * 64);  // from page to page
}

TEST_F(HipPlanning, SlicesOfAnOutputAreBlocks) {
  const auto expect_blocks = [&](std::int64_t forward, std::int64_t grad_q, std::int64_t grad_kv) {
    ASSERT_TRUE(plan().ok());
    EXPECT_STREQ(plan_.forward.at(0).kernel->name, "wide_512");
    EXPECT_EQ(plan_.forward.at(0).blocks, 2 * 4 * 2 * forward);  // tiles, heads, batches
    EXPECT_EQ(plan_.backward.at(0).blocks, 2 * 4 * 2);           // row dots are whole
    EXPECT_EQ(plan_.backward.at(1).blocks, 2 * 4 * 2 * grad_q);
    EXPECT_EQ(plan_.backward.at(2).blocks, 3 * 2 * 2 * grad_kv);  // dK's slices, then dV's
  };
  problem_.d = problem_.d_v = 512;
  expect_blocks(2, 2, 4);
  problem_.d = 257;
  problem_.d_v = 40;
  expect_blocks(1, 2, 3);
  problem_.d = 1;
  problem_.d_v = 320;
  expect_blocks(2, 1, 3);
}

TEST_F(HipPlanning, ArchitecturesServeThemselvesAndNvidiasWhatCameAfter) {
  caps_.architecture = "sm_86";
  ASSERT_TRUE(plan().ok());
  EXPECT_STREQ(plan_.forward.at(0).kernel->arch, "sm_80");
  caps_.architecture = "sm_75";
  expect_refused(plan(), "sm_75");
}

TEST_F(HipPlanning, WhichCodeRunsOnWhichGpu) {
  EXPECT_TRUE(runs_on("gfx90a;gfx942", "gfx942"));
  EXPECT_FALSE(runs_on("gfx90a;gfx942", "gfx950"));
  EXPECT_FALSE(runs_on("80;90a-real", "gfx942"));
  EXPECT_TRUE(runs_on("80-real", "sm_89"));  // machine code, within a major number
  EXPECT_FALSE(runs_on("80-real", "sm_90"));
  EXPECT_FALSE(runs_on("89-real", "sm_86"));
  EXPECT_TRUE(runs_on("80", "sm_120"));  // intermediate code
  EXPECT_TRUE(runs_on("75-real;100-real", "sm_103"));
  EXPECT_FALSE(runs_on("90a", "sm_100"));
  EXPECT_TRUE(runs_on("90a-real", "sm_90"));
}

TEST_F(HipPlanning, ALowerLimitMovesOnToARowThatFits) {
  caps_.shared_bytes = 48 << 10;
  ASSERT_TRUE(plan().ok());
  EXPECT_STREQ(plan_.forward.at(0).kernel->arch, "sm_80");
  caps_.shared_bytes = 40 << 10;  // just enough
  EXPECT_TRUE(plan().ok());
  caps_.shared_bytes = (40 << 10) - 1;
  expect_refused(plan(), "needs 40960 bytes of shared memory of 40959");
}

TEST_F(HipPlanning, RefusesByNameWhatNoRowCanDo) {
  problem_.d = 257;
  expect_refused(plan("specialised"), "special_128 head sizes end at 128");
  problem_.d = 64;
  problem_.dtype = CROSSFLASH_BF16;
  expect_refused(plan(), "dtype is bf16");
  problem_.dtype = CROSSFLASH_F16;
  caps_.blocks = 15;  // 2 tiles of queries, 4 heads, 2 batches are 16
  expect_refused(plan(), "needs 16 blocks");
  caps_.blocks = 16;
  EXPECT_TRUE(plan().ok());
  caps_.total_threads = 16 * 128 - 1;
  expect_refused(plan(), "needs 16 blocks");
}

TEST_F(HipPlanning, AVariantIsInsistedOn) {
  ASSERT_TRUE(plan("general").ok());
  EXPECT_STREQ(plan_.forward.at(0).kernel->name, "general_128");
  ASSERT_TRUE(plan("specialised").ok());
  EXPECT_STREQ(plan_.backward.at(2).kernel->name, "special_128");
  problem_.dropout = 0.5f;
  expect_refused(plan("specialised"), "special_128 takes a positive scale and no options");
}

TEST_F(HipPlanning, BackwardRunsInOrderOverOneWorkspace) {
  ASSERT_TRUE(plan().ok());
  ASSERT_EQ(plan_.backward.size(), 3u);
  EXPECT_EQ(plan_.backward[0].kernel->pass, KernelPass::row_dot);
  EXPECT_EQ(plan_.backward[1].kernel->pass, KernelPass::grad_q);
  EXPECT_EQ(plan_.backward[2].kernel->pass, KernelPass::grad_kv);
  EXPECT_EQ(plan_.backward[2].blocks, 3 * 2 * 2);  // tiles of keys, key heads, batches
  const std::uint64_t rows = 2 * 4 * 100 * sizeof(float);
  ASSERT_EQ(plan_.backward_regions.size(), 2u);
  EXPECT_EQ(plan_.backward_regions[0].offset, 0u);
  EXPECT_EQ(plan_.backward_regions[1].offset, rows);
  EXPECT_EQ(plan_.workspace(Pass::backward), 2 * rows + 12);  // may start at any f32
  EXPECT_EQ(plan_.workspace(Pass::forward), 0u);
}

TEST_F(HipPlanning, GradientsOfOptionsComeLastAndOnlyIfAskedFor) {
  const auto last_blocks = [&](std::size_t steps) {
    EXPECT_TRUE(plan().ok());
    EXPECT_EQ(plan_.backward.size(), steps);
    return plan_.backward.back().blocks;
  };
  problem_.bias = problem_.sink = CROSSFLASH_GIVEN;
  problem_.bias_dtype = CROSSFLASH_F16;
  last_blocks(3);
  EXPECT_EQ(plan_.backward.back().kernel->pass, KernelPass::grad_kv);
  problem_.sink = CROSSFLASH_WITH_GRADIENT;
  EXPECT_EQ(last_blocks(4), 4);  // heads
  EXPECT_EQ(plan_.backward.back().kernel->pass, KernelPass::grad_sink);
  problem_.sink = CROSSFLASH_ABSENT;
  problem_.bias = CROSSFLASH_WITH_GRADIENT;
  EXPECT_EQ(last_blocks(4), 2 * 5 * 4 * 2);  // tiles of queries, of keys, heads, batches
  EXPECT_EQ(plan_.backward.back().kernel->pass, KernelPass::grad_bias);
  problem_.bias_strides = {0, 100 * 130, 130, 1};
  EXPECT_EQ(last_blocks(4), 2 * 5 * 4);
  problem_.bias_strides = {130, 0, 0, 1};
  EXPECT_EQ(last_blocks(4), 5 * 2);
  problem_.bias_strides = {0, 0, 1, 0};
  EXPECT_EQ(last_blocks(4), 2);
  problem_.seq_q = 0;
  EXPECT_EQ(last_blocks(4), 0);
  problem_.sink = CROSSFLASH_WITH_GRADIENT;
  EXPECT_EQ(last_blocks(5), 4);  // zero, and written
  problem_.passes = CROSSFLASH_FORWARD;
  ASSERT_TRUE(plan().ok());
  EXPECT_TRUE(plan_.backward.empty());
}

TEST_F(HipPlanning, AFreeOrderOfSumsIsUsedWhereItIsAllowedAndCompiled) {
  const std::vector<Variant> fused_rows = unit_of("sm_90", 90 << 10, kFusedPasses);
  const Variants fused_unit = fused_rows;
  units_.push_back({&fused_unit, "90-real"});
  const auto passes = [&] {
    EXPECT_TRUE(plan().ok());
    std::vector<KernelPass> all;
    for (const Step& step : plan_.backward) all.push_back(step.kernel->pass);
    return all;
  };
  const std::vector<KernelPass> fused = {KernelPass::row_dot, KernelPass::grad_all,
                                         KernelPass::cast_grad_q};
  const std::vector<KernelPass> ordered = {KernelPass::row_dot, KernelPass::grad_q,
                                           KernelPass::grad_kv};
  problem_.d = 72;
  EXPECT_EQ(passes(), fused);
  EXPECT_EQ(plan_.backward[1].blocks, 3 * 2 * 2);  // tiles of keys, key heads, batches
  EXPECT_EQ(plan_.backward[2].blocks, 2 * 4 * 2);  // tiles of queries, heads, batches
  const std::uint64_t rows = 2 * 4 * 100 * sizeof(float);
  ASSERT_EQ(plan_.backward_regions.size(), 3u);
  EXPECT_EQ(plan_.backward_regions[2].offset, 2 * rows);
  const std::uint64_t sums = 2 * 4 * 128 * 128 * sizeof(float);  // padded to 64
  EXPECT_EQ(plan_.workspace(Pass::backward), 2 * rows + sums + 12);

  problem_.deterministic = 1;
  EXPECT_EQ(passes(), ordered);
  problem_.deterministic = 0;
  problem_.d_v = 257;
  EXPECT_EQ(passes(), ordered);
  problem_.d_v = 64;
  caps_.shared_bytes = 48 << 10;
  EXPECT_EQ(passes(), ordered);
}

TEST_F(HipPlanning, PackedSequencesHaveOneWorkspaceOfAllRows) {
  const std::vector<Variant> fused_rows = unit_of("sm_90", 90 << 10, kFusedPasses);
  const Variants fused_unit = fused_rows;
  units_.push_back({&fused_unit, "90-real"});
  problem_.rows_q = CROSSFLASH_ROWS_OFFSETS;
  problem_.total_q = 150;
  ASSERT_TRUE(plan().ok());
  EXPECT_EQ(plan_.backward[0].blocks, 2 * 4 * 2);  // as for two of the longest
  const std::uint64_t rows = 4 * 150 * sizeof(float);
  ASSERT_EQ(plan_.backward_regions.size(), 3u);
  EXPECT_EQ(plan_.backward_regions[2].offset, 2 * rows);
  // Each begins at a multiple of 64 rows of dQ's sums, and ends there.
  EXPECT_EQ(packed_sum_row(0, 0), 0);
  EXPECT_EQ(packed_sum_row(65, 1), 128);
  EXPECT_EQ(packed_sum_row(150, 2), 256);
  const std::uint64_t sums = 4 * 256 * 64 * sizeof(float);
  EXPECT_EQ(plan_.workspace(Pass::backward), 2 * rows + sums + 12);
}

TEST_F(HipPlanning, AnEmptyAxisLaunchesOnlyWhatHasRows) {
  problem_.seq_q = 0;
  ASSERT_TRUE(plan().ok());
  EXPECT_EQ(plan_.forward.at(0).blocks, 0);
  EXPECT_EQ(plan_.backward.at(1).blocks, 0);
  EXPECT_GT(plan_.backward.at(2).blocks, 0);  // dK and dV are zero, and written
}

TEST_F(HipPlanning, ExtentsBeyondTheKernelsIntegersAreRefused) {
  problem_.batch = std::int64_t{1} << 31;
  problem_.seq_q = problem_.seq_k = 1;
  problem_.heads_q = problem_.heads_kv = 1;
  expect_refused(plan(), "batch is 2147483648");
}

// The same on a GPU of 100 multiprocessors, with split keys: tiles of 16 rows and 64 keys.
class HipSplitting : public HipPlanning {
 protected:
  HipSplitting() {
    problem_.batch = 1;
    problem_.seq_q = 1;
    problem_.seq_k = 64 * 400;
    problem_.heads_q = 8;
    problem_.heads_kv = 2;
    caps_.shared_bytes = 90 << 10;
  }
  std::span<const Unit> units() const override { return with_split_; }
  const Variant* kernel(std::size_t n) const { return plan_.forward.at(n).kernel; }

  const std::vector<Variant> split_rows_ = {
      {"sm_90", "split_128", KernelPass::forward_split, shared::CF_F16, 128, false, 16, 64, 0, 128,
       60 << 10, nullptr, nullptr},
      {"sm_90", "split_general_128", KernelPass::forward_split, shared::CF_F16, 128, true, 16, 64,
       0, 128, 60 << 10, nullptr, nullptr}};
  const std::vector<Variant> combine_rows_ = {{"sm_90", "combine", KernelPass::combine,
                                               shared::CF_F16, 512, true, 1, 64, 0, 256, 0, nullptr,
                                               nullptr}};
  const Variants split_unit_ = split_rows_, combine_unit_ = combine_rows_;
  const std::vector<Unit> with_split_ = {
      {&new_unit_, "90-real"}, {&split_unit_, "90-real"}, {&combine_unit_, "90-real"}};
};

TEST_F(HipSplitting, FewQueriesFillTheMachineWithStretchesOfTheKeys) {
  ASSERT_TRUE(plan().ok());
  ASSERT_EQ(plan_.forward.size(), 2u);
  EXPECT_STREQ(kernel(0)->name, "split_128");
  EXPECT_STREQ(kernel(1)->name, "combine");
  EXPECT_EQ(plan_.arguments.splits, 100);  // 4 tiles of keys each
  EXPECT_EQ(plan_.forward[0].blocks, 100 * 2);
  EXPECT_EQ(plan_.forward[1].blocks, 8);
  problem_.dropout = 0.5f;
  ASSERT_TRUE(plan().ok());
  EXPECT_STREQ(kernel(0)->name, "split_general_128");
}

TEST_F(HipSplitting, StatesOfTheStretchesAreTheWorkspaceOfForwardAlone) {
  problem_.batch = 3;
  problem_.d_v = 40;
  ASSERT_TRUE(plan().ok());
  ASSERT_EQ(plan_.forward_regions.size(), 1u);
  EXPECT_EQ(plan_.arguments.splits, 80);  // 5 tiles each
  const std::uint64_t aligning = kRegionBytes - sizeof(float);
  EXPECT_EQ(plan_.workspace(Pass::forward), 80u * 3 * 8 * (40 + 2) * sizeof(float) + aligning);
  EXPECT_EQ(plan_.workspace(Pass::backward), 3u * 8 * 2 * sizeof(float) + aligning);
}

TEST_F(HipSplitting, StretchesAreOfTheLongestSequenceAndItsPages) {
  problem_.passes = CROSSFLASH_FORWARD;
  problem_.rows_q = CROSSFLASH_ROWS_OFFSETS;
  problem_.total_q = 1;
  problem_.rows_k = CROSSFLASH_ROWS_LENGTHS;
  problem_.page_size = 64;
  problem_.pages = 500;
  ASSERT_TRUE(plan().ok());
  ASSERT_EQ(plan_.forward.size(), 2u);
  EXPECT_STREQ(kernel(0)->name, "split_general_128");
  EXPECT_EQ(plan_.arguments.splits, 100);
  EXPECT_EQ(plan_.arguments.state_unit, 1.0f);
  EXPECT_EQ(plan_.workspace(Pass::forward),
            100u * 8 * (64 + 2) * sizeof(float) + kRegionBytes - sizeof(float));
}

TEST_F(HipSplitting, ManyStretchesAreBoundedAndLongOnesCut) {
  problem_.heads_q = problem_.heads_kv = 1;
  problem_.seq_k = 1 << 20;
  ASSERT_TRUE(plan().ok());
  EXPECT_EQ(plan_.arguments.splits, kMostSplits);
  problem_.batch = 1000;  // enough blocks, but sums of 2^20 terms
  ASSERT_TRUE(plan().ok());
  EXPECT_EQ(plan_.arguments.splits, 64);
}

TEST_F(HipSplitting, OneStretchNeedsNeitherCombiningNorWorkspace) {
  problem_.batch = 200;
  problem_.seq_k = 8192;
  ASSERT_TRUE(plan().ok());
  ASSERT_EQ(plan_.forward.size(), 1u);
  EXPECT_STREQ(kernel(0)->name, "split_128");
  EXPECT_EQ(plan_.workspace(Pass::forward), 0u);
}

TEST_F(HipSplitting, AWindowIsWhatIsSplit) {
  problem_.window_left = 1000;
  problem_.window_right = 0;
  ASSERT_TRUE(plan().ok());
  EXPECT_LE(plan_.arguments.splits, 16);  // of 1005 keys
}

TEST_F(HipSplitting, ManyQueriesThatFillTheMachineAreOneKernel) {
  problem_.batch = 32;
  problem_.heads_q = problem_.heads_kv;
  problem_.seq_q = problem_.seq_k = 4096;
  ASSERT_TRUE(plan().ok());
  ASSERT_EQ(plan_.forward.size(), 1u);
  EXPECT_STREQ(kernel(0)->name, "special_128");
}

TEST_F(HipSplitting, SplittingIsInsistedOnOrRuledOut) {
  ASSERT_TRUE(plan("general").ok());
  EXPECT_STREQ(kernel(0)->name, "general_128");
  problem_.batch = 32;
  problem_.seq_q = 4096;
  ASSERT_TRUE(plan("split").ok());
  EXPECT_STREQ(kernel(0)->name, "split_128");
  EXPECT_EQ(plan_.arguments.splits, 2);
}

TEST_F(HipSplitting, SumsOverVeryManyF32KeysAreSplitWhateverIsAsked) {
  std::vector<Variant> rows = split_rows_;
  rows.push_back(combine_rows_[0]);
  rows.push_back(new_rows_[0]);
  for (Variant& row : rows) row.dtype = shared::CF_F32;
  const Variants unit = rows;
  const std::vector<Unit> units = {{&unit, "90-real"}};
  problem_.dtype = CROSSFLASH_F32;
  problem_.passes = CROSSFLASH_FORWARD;
  for (const int keys : {65536, 65537}) {
    problem_.seq_k = keys;
    Problem checked;
    ASSERT_TRUE(check_problem(problem_, &checked).ok());
    ASSERT_TRUE(make_plan(checked, caps_, units, "specialised", &plan_).ok());
    EXPECT_EQ(plan_.forward.size(), keys > 65536 ? 2u : 1u);
  }
}

TEST_F(HipSplitting, WhereNoRowCanForwardIsOneKernel) {
  problem_.d = 129;
  ASSERT_TRUE(plan("split").ok());
  EXPECT_STREQ(kernel(0)->name, "general_256");
  EXPECT_EQ(plan_.arguments.splits, 1);
  problem_.seq_q = 0;
  ASSERT_TRUE(plan("split").ok());
  EXPECT_EQ(plan_.forward.at(0).blocks, 0);
}

}  // namespace
}  // namespace crossflash::hip
