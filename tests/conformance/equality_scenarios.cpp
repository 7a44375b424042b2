// SPDX-License-Identifier: MIT
// equality_scenarios.cpp: one computation asked for in several ways gives the same bits: other
// layouts, other words for the same mask, two halves for a whole, other rubbish in unused memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/conformance/scenarios.h"
#include "tests/conformance/subject.h"

namespace crossflash::conformance {
namespace {

void expect_same_bits(const Device& device, const Case& a, const Case& b) {
  const std::string different = first_difference(run(device, a), run(device, b));
  EXPECT_EQ(different, "") << "of\n  case: " << format_case(a) << "\n  case: " << format_case(b);
}

void layouts_agree(const Device& device) {
  for (const char* line : {"batch=2 seq=33 heads=4/2 d=40 causal=top-left dropout=0.2 seed=5",
                           "batch=2 seq=65 heads=3 d=64 dv=24 type=f16 deterministic",
                           "batch=2 seq=47 heads=2 d=15 type=bf16 deterministic"}) {
    const Case contiguous = case_of(line);
    for (const Layout layout : {Layout::bhsd, Layout::packed_qkv, Layout::padded}) {
      Case other = contiguous;
      other.layout = layout;
      expect_same_bits(device, contiguous, other);
    }
  }
}

// Only rows of dO and V far apart: the stride alone differs, by more than a tile of anything.
void far_rows_agree(const Device& device) {
  const Case c = case_of("seq=70x90 heads=2 d=24 dv=40");
  const Execution near = execution_of(c);
  Execution far = near;
  constexpr std::int64_t kRow = 9728;
  for (crossflash_strides* s : {&far.problem.grad_o, &far.problem.v})
    *s = {kRow * 1000, kRow, c.problem.d_v, 1};
  Problem problem;
  ASSERT_TRUE(check_problem(far.problem, &problem).ok());
  far.arrangement = arrange(problem, c.layout);
  EXPECT_EQ(first_difference(run(device, near), run(device, far)), "");
}

// A window as wide as the sequence is open, and a causal mask is a window without a right side.
void windows_agree(const Device& device) {
  const Case causal = case_of("batch=2 seq=67 heads=2 d=32 causal=bottom-right");
  for (const std::int64_t left : {-1, 66, 67, 1 << 30}) {
    Case window = causal;
    window.problem.causal = CROSSFLASH_NOT_CAUSAL;
    window.problem.window_left = left;
    window.problem.window_right = 0;
    expect_same_bits(device, causal, window);
  }
  const Case open = case_of("seq=40x67 heads=2 d=32");
  for (const std::int64_t wide : {std::int64_t{67}, std::int64_t{1} << 62}) {
    Case window = open;
    window.problem.window_left = window.problem.window_right = wide;
    expect_same_bits(device, open, window);
  }
}

// The corners are one where the sequences are equally long.
void corners_agree(const Device& device) {
  expect_same_bits(device, case_of("seq=65 heads=2 d=48 causal=top-left"),
                   case_of("seq=65 heads=2 d=48 causal=bottom-right"));
}

template <typename T>
std::vector<T> part(const std::vector<T>& whole, std::size_t begin, std::size_t end,
                    std::size_t parts) {
  const std::size_t size = whole.size() / parts;
  return {whole.begin() + static_cast<std::ptrdiff_t>(begin * size),
          whole.begin() + static_cast<std::ptrdiff_t>(end * size)};
}

// A batch in one go is the batch in two goes.
void halves_agree(const Device& device) {
  for (const char* line : {"batch=41 seq=3x5 heads=2 d=16",
                           "batch=3 seq=33x65 heads=4/2 d=72 type=f16 deterministic"}) {
    const Execution whole = execution_of(case_of(line));
    const Results results = run(device, whole);
    const auto batch = static_cast<std::size_t>(whole.problem.batch);
    for (const auto& [begin, end] :
         {std::pair{std::size_t{0}, batch / 2}, std::pair{batch / 2, batch}}) {
      Case c = case_of(line);
      c.problem.batch = static_cast<std::int64_t>(end - begin);
      Execution half = execution_of(c);
      half.inputs.q = part(whole.inputs.q, begin, end, batch);
      half.inputs.k = part(whole.inputs.k, begin, end, batch);
      half.inputs.v = part(whole.inputs.v, begin, end, batch);
      half.inputs.grad_o = part(whole.inputs.grad_o, begin, end, batch);
      Results expected;
      expected.o = part(results.o, begin, end, batch);
      expected.lse = part(results.lse, begin, end, batch);
      expected.grad_q = part(results.grad_q, begin, end, batch);
      expected.grad_k = part(results.grad_k, begin, end, batch);
      expected.grad_v = part(results.grad_v, begin, end, batch);
      EXPECT_EQ(first_difference(expected, run(device, half)), "")
          << "of batches " << begin << " to " << end << " of\n  case: " << line;
    }
  }
}

// A cache of 128 key slots of which some are in use; the rest holds zeros, NaN or infinity.
void stale_slots_do_not_matter(const Device& device) {
  constexpr std::int64_t kSlots = 128;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const char* type : {"f32", "f16", "bf16"})
    for (const std::int64_t used : {1, 97}) {
      const Case c =
          case_of(fmt::format("batch=2 seq=9x{} heads=4/2 d=40 type={} deterministic", used, type));
      Execution e = execution_of(c);
      e.problem.k = e.problem.v = {kSlots * 80, 80, 40, 1};
      Problem problem;
      ASSERT_TRUE(check_problem(e.problem, &problem).ok());
      e.arrangement = arrange(problem, c.layout);
      e.gap = 0;
      const Results clean = run(device, e);
      for (const float stale : {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
        e.gap = stale;
        EXPECT_EQ(first_difference(clean, run(device, e)), "")
            << used << " of " << kSlots << " slots used, the rest holds " << stale << ", " << type;
      }
    }
}

// Many tiles of keys, each of which adds to the same gradients of queries.
void deterministic_repeats_agree(const Device& device) {
  for (const char* line :
       {"seq=65x400 heads=4/2 d=16 type=f16 deterministic",
        "seq=65x400 heads=2 d=24 dv=8 type=bf16 dropout=0.2 seed=3 deterministic"}) {
    const Execution execution = execution_of(case_of(line));
    const Results first = run(device, execution);
    for (int n = 1; n < 30; ++n)
      ASSERT_EQ(first_difference(first, run(device, execution)), "")
          << "in round " << n << " of\n  case: " << line;
  }
}

constexpr Scenario kScenarios[] = {
    {"layouts_agree", layouts_agree},
    {"far_rows_agree", far_rows_agree},
    {"windows_agree", windows_agree},
    {"corners_agree", corners_agree},
    {"halves_agree", halves_agree},
    {"stale_slots_do_not_matter", stale_slots_do_not_matter},
    {"deterministic_repeats_agree", deterministic_repeats_agree},
};

}  // namespace

std::span<const Scenario> equality_scenarios() { return kScenarios; }

}  // namespace crossflash::conformance
