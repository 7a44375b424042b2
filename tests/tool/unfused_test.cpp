// SPDX-License-Identifier: MIT
// unfused_test.cpp: the attention to beat is held to the same rule as those that shall beat it.
#include <gtest/gtest.h>

#include "bench/unfused.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/fill.h"

namespace crossflash::bench {
namespace {

struct Example {
  Case the_case;
  Problem problem;
  reference::Inputs inputs;

  explicit Example(const std::string& line) : the_case{}, problem{}, inputs{} {
    EXPECT_TRUE(parse_case(line, &the_case).ok()) << line;
    EXPECT_TRUE(check_problem(the_case.problem, &problem).ok()) << line;
    inputs = conformance::make_inputs(the_case, problem);
  }
};

TEST(UnfusedCpu, IsRight) {
  const Device device("cpu");
  for (const char* line : {
           "batch=2 seq=65x130 heads=4/2 d=32 dv=40",
           "seq=70 heads=2 d=16 causal=top-left",
           "seq=33x97 heads=2/1 d=24 causal=bottom-right",
           "seq=90x40 d=8 causal=bottom-right",  // rows that see no key
           "seq=64 d=16 window=5,3",
           "seq=3x300 heads=6/3 d=300 dv=1",
       }) {
    SCOPED_TRACE(line);
    const Example s(line);
    const auto unfused = make_unfused(device, s.problem, s.inputs);
    ASSERT_NE(unfused, nullptr);
    for (int time = 0; time < 2; ++time) {  // nothing is left over from the first
      unfused->forward();
      unfused->backward();
    }
    const auto exact = reference::exact_attention(s.problem, s.inputs);
    const auto plain = reference::plain_attention(s.problem, s.inputs);
    const auto judge = [&](TensorId id, const std::vector<double>& e,
                           const std::vector<double>& p) {
      const auto judgement =
          conformance::judge_tensor(id, s.problem.tensor(id), unfused->output(id), e, p);
      EXPECT_EQ(judgement.failure, "");
    };
    judge(TensorId::o, exact.o, plain.o);
    judge(TensorId::grad_q, exact.grad_q, plain.grad_q);
    judge(TensorId::grad_k, exact.grad_k, plain.grad_k);
    judge(TensorId::grad_v, exact.grad_v, plain.grad_v);
  }
}

TEST(UnfusedCpu, StoresTheScoresAndSaysSo) {
  const Device device("cpu");
  const Example s("batch=2 seq=16x8 heads=4/2 d=8");
  const auto unfused = make_unfused(device, s.problem, s.inputs);
  ASSERT_NE(unfused, nullptr);
  EXPECT_EQ(unfused->workspace_bytes(CROSSFLASH_FORWARD), 2u * 4 * 16 * 8 * 4);
  EXPECT_EQ(unfused->workspace_bytes(CROSSFLASH_BACKWARD), 2u * 2 * 4 * 16 * 8 * 4);
}

TEST(UnfusedCpu, DeclinesWhatItCannotDo) {
  const Device device("cpu");
  const Example with_dropout("dropout=0.5"), huge("batch=64 seq=8192 d=1 passes=forward");
  EXPECT_EQ(make_unfused(device, with_dropout.problem, with_dropout.inputs), nullptr);
  EXPECT_EQ(make_unfused(device, huge.problem, huge.inputs), nullptr);
}

}  // namespace
}  // namespace crossflash::bench
