// SPDX-License-Identifier: MIT
// refusal_scenarios.cpp: requests that a case line cannot say (see cases/refusals.txt for those
// that it can) and wrong arguments of a run: each with its code and a sentence that names the
// field.
#include <gtest/gtest.h>

#include <limits>

#include "tests/conformance/scenarios.h"
#include "tests/conformance/subject.h"

namespace crossflash::conformance {
namespace {

void expect_refused(crossflash_status status, crossflash_status expected, const char* field) {
  EXPECT_EQ(status, expected) << crossflash_status_name(status) << ": " << crossflash_last_error();
  if (status == CROSSFLASH_OK) return;
  const std::string text = crossflash_last_error();
  EXPECT_NE(text.find(field), std::string::npos) << "\"" << text << "\" does not name " << field;
}

struct BadProblem {
  const char* field;
  crossflash_status expected;
  void (*spoil)(crossflash_problem* p);
};

constexpr BadProblem kBadProblems[] = {
    {"struct_size", CROSSFLASH_INVALID, [](crossflash_problem* p) { p->struct_size = 0; }},
    {"passes", CROSSFLASH_INVALID, [](crossflash_problem* p) { p->passes = 8; }},
    {"dtype", CROSSFLASH_INVALID,
     [](crossflash_problem* p) { p->dtype = static_cast<crossflash_dtype>(3); }},
    {"causal", CROSSFLASH_INVALID,
     [](crossflash_problem* p) { p->causal = static_cast<crossflash_causal>(3); }},
    {"v.dim", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->v = {8192, 128, 32, 2};
     }},
    {"grad_k.dim", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->grad_k = {8192, 128, 32, 0};
     }},
    {"q.seq", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->q = {8192, -128, 32, 1};
     }},
    {"o.head", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->o = {8192, 128, 0, 1};
     }},
    {"dropout", CROSSFLASH_INVALID,
     [](crossflash_problem* p) { p->dropout = std::numeric_limits<float>::quiet_NaN(); }},
    {"softcap", CROSSFLASH_INVALID,
     [](crossflash_problem* p) { p->softcap = std::numeric_limits<float>::quiet_NaN(); }},
    {"alibi", CROSSFLASH_INVALID, [](crossflash_problem* p) { p->alibi = 2; }},
    {"sink", CROSSFLASH_INVALID,
     [](crossflash_problem* p) { p->sink = static_cast<crossflash_given>(3); }},
    {"bias", CROSSFLASH_INVALID,
     [](crossflash_problem* p) { p->bias = static_cast<crossflash_given>(3); }},
    {"mask", CROSSFLASH_INVALID, [](crossflash_problem* p) { p->mask = -1; }},
    {"rows_q", CROSSFLASH_INVALID,
     [](crossflash_problem* p) { p->rows_q = static_cast<crossflash_rows>(3); }},
    {"random_on_device", CROSSFLASH_INVALID,
     [](crossflash_problem* p) { p->random_on_device = 7; }},
    {"bias_dtype", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->bias = CROSSFLASH_GIVEN;
       p->bias_dtype = static_cast<crossflash_dtype>(3);
     }},
    {"bias_strides.seq_k", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->bias = CROSSFLASH_GIVEN;
       p->bias_strides = {0, 0, 128, 2};
     }},
    {"bias_strides.seq_q", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->bias = CROSSFLASH_GIVEN;
       p->bias_strides = {0, 0, -64, 1};
     }},
    {"bias_strides.batch", CROSSFLASH_UNSUPPORTED,
     [](crossflash_problem* p) {
       p->bias = CROSSFLASH_GIVEN;
       p->bias_strides = {std::int64_t{1} << 61, 0, 64, 1};
     }},
    {"mask_strides.seq_k", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->mask = 1;
       p->mask_strides = {0, 0, 2, 0};
     }},
    {"mask_strides.head", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->mask = 1;
       p->mask_strides = {0, -2, 2, 1};
     }},
    {"total_q", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->rows_q = CROSSFLASH_ROWS_OFFSETS;
       p->total_q = -1;
     }},
    {"total_k", CROSSFLASH_UNSUPPORTED,
     [](crossflash_problem* p) {
       p->rows_k = CROSSFLASH_ROWS_OFFSETS;
       p->total_k = std::int64_t{1} << 31;
     }},
    {"pages", CROSSFLASH_INVALID,
     [](crossflash_problem* p) {
       p->passes = CROSSFLASH_FORWARD;
       p->page_size = 16;
     }},
};

void bad_problems_are_named(const Device& device) {
  for (const BadProblem& bad : kBadProblems) {
    crossflash_problem problem = case_of("batch=2 seq=64 heads=2 d=32").problem;
    bad.spoil(&problem);
    expect_refused(crossflash_supports(device.get(), &problem), bad.expected, bad.field);
    crossflash_plan* plan = nullptr;
    expect_refused(crossflash_plan_create(device.get(), &problem, &plan), bad.expected, bad.field);
    EXPECT_EQ(plan, nullptr) << bad.field;
  }
}

struct BadArgs {
  const char* field;
  void (*spoil)(crossflash_args* args);
};

constexpr BadArgs kBadArgs[] = {
    {"struct_size", [](crossflash_args* a) { a->struct_size = 1; }},
    {"q", [](crossflash_args* a) { a->q = {}; }},
    {"lse", [](crossflash_args* a) { a->lse = {}; }},
    {"v.offset", [](crossflash_args* a) { a->v.offset += 1; }},
    {"workspace.offset",
     [](crossflash_args* a) {
       a->workspace = a->o;
       a->workspace.offset = 2;
     }},
};

void bad_arguments_are_named(const Device& device) {
  const Case c = case_of("seq=8 d=8 passes=forward");
  if (const auto refused = refusal(device, c.problem)) throw Refused(c.problem, *refused);
  const Plan plan(device, c.problem);
  const Buffer q(device, 512), k(device, 512), v(device, 512), o(device, 512), lse(device, 512);
  crossflash_args good = make_args();
  good.q = q;
  good.k = k;
  good.v = v;
  good.o = o;
  good.lse = lse;
  for (const BadArgs& bad : kBadArgs) {
    crossflash_args args = good;
    bad.spoil(&args);
    expect_refused(crossflash_forward(plan.get(), &args), CROSSFLASH_INVALID, bad.field);
  }
  expect_refused(crossflash_backward(plan.get(), &good), CROSSFLASH_INVALID, "CROSSFLASH_BACKWARD");
  expect_refused(crossflash_forward(plan.get(), nullptr), CROSSFLASH_INVALID, "args");
  expect_refused(crossflash_forward(nullptr, &good), CROSSFLASH_INVALID, "plan");
}

struct MissingOption {
  const char* field;
  const char* line;
  std::uint32_t pass;
};

constexpr MissingOption kMissingOptions[] = {
    {"bias", "seq=8 d=8 bias=qk", CROSSFLASH_FORWARD},
    {"bias", "seq=8 d=8 bias=qk", CROSSFLASH_BACKWARD},
    {"grad_bias", "seq=8 d=8 dbias", CROSSFLASH_BACKWARD},
    {"alibi", "seq=8 d=8 alibi", CROSSFLASH_FORWARD},
    {"sink", "seq=8 d=8 sink", CROSSFLASH_BACKWARD},
    {"grad_sink", "seq=8 d=8 dsink", CROSSFLASH_BACKWARD},
    {"mask", "seq=8 d=8 mask=qk", CROSSFLASH_FORWARD},
    {"rows_q", "seq=8 d=8 rows=lengths/all", CROSSFLASH_FORWARD},
    {"rows_k", "seq=8 d=8 rows=all/offsets", CROSSFLASH_BACKWARD},
    {"page_table", "seq=8 d=8 page=16 passes=forward", CROSSFLASH_FORWARD},
    {"random", "seq=8 d=8 dropout=0.5 device-seed", CROSSFLASH_FORWARD},
};

// Every buffer is there but those of options, of which the named one is missed.
void missing_options_are_named(const Device& device) {
  for (const MissingOption& missing : kMissingOptions) {
    const Execution e = execution_of(case_of(missing.line));
    if (const auto refused = refusal(device, e.problem)) throw Refused(e.problem, *refused);
    const Plan plan(device, e.problem);
    const Buffer any(device, 1 << 16);
    crossflash_args args = make_args();
    for (crossflash_buffer* buffer :
         {&args.q, &args.k, &args.v, &args.o, &args.lse, &args.grad_o, &args.grad_q, &args.grad_k,
          &args.grad_v, &args.bias, &args.sink})
      *buffer = any;
    if (missing.field == std::string("bias")) args.bias = {};
    if (missing.field == std::string("sink")) args.sink = {};
    expect_refused(missing.pass == CROSSFLASH_FORWARD ? crossflash_forward(plan.get(), &args)
                                                      : crossflash_backward(plan.get(), &args),
                   CROSSFLASH_INVALID, missing.field);
  }
}

// The state of dropout is either on the device or in the arguments.
void a_seed_of_two_places_is_named(const Device& device) {
  const Execution e = execution_of(case_of("seq=8 d=8 passes=forward dropout=0.5 device-seed"));
  if (const auto refused = refusal(device, e.problem)) throw Refused(e.problem, *refused);
  const Plan plan(device, e.problem);
  const Buffer any(device, 1 << 16);
  crossflash_args args = make_args();
  for (crossflash_buffer* buffer : {&args.q, &args.k, &args.v, &args.o, &args.lse, &args.random})
    *buffer = any;
  args.seed = 1;
  expect_refused(crossflash_forward(plan.get(), &args), CROSSFLASH_INVALID, "seed");
}

// Dropout's offset is known only when a plan runs.
void a_dropout_offset_past_32_bits_is_named(const Device& device) {
  const Case c = case_of("seq=8 d=8 passes=forward dropout=0.5");
  if (const auto refused = refusal(device, c.problem)) throw Refused(c.problem, *refused);
  const Plan plan(device, c.problem);
  const Buffer q(device, 512), k(device, 512), v(device, 512), o(device, 512), lse(device, 512);
  crossflash_args args = make_args();
  args.q = q;
  args.k = k;
  args.v = v;
  args.o = o;
  args.lse = lse;
  args.offset = std::uint64_t{1} << 32;
  expect_refused(crossflash_forward(plan.get(), &args), CROSSFLASH_UNSUPPORTED, "offset");
}

constexpr Scenario kScenarios[] = {
    {"bad_problems_are_named", bad_problems_are_named},
    {"bad_arguments_are_named", bad_arguments_are_named},
    {"missing_options_are_named", missing_options_are_named},
    {"a_seed_of_two_places_is_named", a_seed_of_two_places_is_named},
    {"a_dropout_offset_past_32_bits_is_named", a_dropout_offset_past_32_bits_is_named},
};

}  // namespace

std::span<const Scenario> refusal_scenarios() { return kScenarios; }

}  // namespace crossflash::conformance
