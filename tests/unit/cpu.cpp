// SPDX-License-Identifier: MIT
// The backend "cpu" where its tiles end: shapes around the tile size, on every type, against the
// double reference; and memory that no visible element lies in, which may hold anything.
#include "tests/unit/host_run.h"
#include "tests/unit/support.h"

namespace crossflash {
namespace {

using testing::checked;
using testing::HostRun;
using testing::max_error;
using testing::problem_of;
using testing::random_inputs;
using testing::worst;

TEST(Cpu, AgreesWithTheReferenceAroundTheTileSize) {
  for (std::int64_t seq_q : {1, 63, 64, 65, 130})
    for (std::int64_t seq_k : {1, 64, 65, 129})
      for (int causal : {0, 1, 2}) {
        crossflash_problem problem = problem_of(1, seq_q, seq_k, 4, 2, 17, 9);
        problem.causal = static_cast<crossflash_causal>(causal);
        problem.window_left = causal == 2 ? 37 : -1;
        problem.dropout = causal == 1 ? 0.2f : 0;
        problem.dtype = static_cast<crossflash_dtype>((seq_q + seq_k + causal) % 3);
        SCOPED_TRACE(
            fmt::format("seq {}x{} causal {} {}", seq_q, seq_k, causal, dtype_name(problem.dtype)));
        const Problem p = checked(problem);
        const reference::Inputs in = random_inputs(p);
        const reference::Outputs exact = reference::exact_attention(p, in);
        const reference::Outputs plain = reference::plain_attention(p, in);
        const reference::Outputs ours = HostRun(p, in).outputs();
        // Its sums are f32 whatever the type: better than plain, save for the rounding of f32.
        EXPECT_LE(worst(ours, exact), 2 * worst(plain, exact) + 1e-6);
      }
}

// Scores in the thousands, where half an ulp of lse is 1e-4: gradients must not show it.
TEST(Cpu, GradientsOfLargeScoresAreAsGoodAsPlains) {
  const Problem p = checked(problem_of(1, 70, 100, 4, 2, 64, 16));
  reference::Inputs in = random_inputs(p);
  for (float& x : in.q) x *= 64;
  for (float& x : in.k) x *= 32;
  const reference::Outputs exact = reference::exact_attention(p, in);
  const reference::Outputs plain = reference::plain_attention(p, in);
  const reference::Outputs ours = HostRun(p, in).outputs();
  EXPECT_GT(*std::max_element(exact.lse.begin(), exact.lse.end()), 3000);
  EXPECT_LE(max_error(ours.grad_q, exact.grad_q), 3 * max_error(plain.grad_q, exact.grad_q));
  EXPECT_LE(max_error(ours.grad_k, exact.grad_k), 3 * max_error(plain.grad_k, exact.grad_k));
  EXPECT_LE(max_error(ours.grad_v, exact.grad_v), 3 * max_error(plain.grad_v, exact.grad_v));
}

TEST(Cpu, WhatNobodySeesIsNotRead) {
  crossflash_problem problem = problem_of(2, 70, 100, 2, 1, 8, 8);
  problem.causal = CROSSFLASH_CAUSAL_TOP_LEFT;  // keys 70 to 99 are seen by nobody
  const Problem keys = checked(problem);
  reference::Inputs in = random_inputs(keys);
  const reference::Outputs clean = HostRun(keys, in).outputs();
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t n = (b * 100 + 70) * 8; n < (b + 1) * 100 * 8; ++n)
      in.k[n] = in.v[n] = n % 2 == 0 ? NAN : INFINITY;
  EXPECT_EQ(worst(HostRun(keys, in).outputs(), clean), 0);

  problem = problem_of(1, 100, 70, 2, 1, 8, 8);
  problem.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT;  // queries 0 to 29 see nobody
  const Problem queries = checked(problem);
  in = random_inputs(queries);
  const reference::Outputs empty_rows = HostRun(queries, in).outputs();
  for (std::size_t n = 0; n < 30 * 2 * 8; ++n) in.q[n] = in.grad_o[n] = NAN;
  EXPECT_EQ(worst(HostRun(queries, in).outputs(), empty_rows), 0);
}

TEST(Cpu, RunsAreEqualToTheBit) {
  crossflash_problem problem = problem_of(2, 200, 150, 4, 2, 32, 16);
  problem.dropout = 0.48f;
  const Problem p = checked(problem);
  const reference::Inputs in = random_inputs(p);
  const reference::Outputs first = HostRun(p, in).outputs();
  for (int n = 0; n < 10; ++n) EXPECT_EQ(worst(HostRun(p, in).outputs(), first), 0);
}

}  // namespace
}  // namespace crossflash
