// SPDX-License-Identifier: MIT
// sharing_scenarios.cpp: what one run may leave behind for another: plans that take turns, a plan
// used from two threads, two hundred repeats. All must give the bits of a lone run.
#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "common/half.h"
#include "tests/conformance/scenarios.h"
#include "tests/conformance/subject.h"

namespace crossflash::conformance {
namespace {

// Contiguous f32 tensors on the device with one plan, enqueued and read at will.
class Job {
 public:
  Job(const Device& device, const char* line) : Job(device, execution_of(case_of(line))) {}
  Job(const Device& device, const Execution& e)
      : expected_(conformance::run(device, e)),
        plan_(device, e.problem),
        q_(device, e.inputs.q),
        k_(device, e.inputs.k),
        v_(device, e.inputs.v),
        grad_o_(device, e.inputs.grad_o) {
    args_ = make_args();
    args_.q = q_;
    args_.k = k_;
    args_.v = v_;
    args_.grad_o = grad_o_;
    args_.seed = e.seed;
    args_.offset = e.offset;
  }

  // Outputs of one run; several runs of one job may be under way.
  struct Outputs {
    Buffer o, lse, grad_q, grad_k, grad_v;

    Outputs(const Device& device, const Results& like)
        : o(device, like.o),
          lse(device, like.lse),
          grad_q(device, like.grad_q),
          grad_k(device, like.grad_k),
          grad_v(device, like.grad_v) {
      // Not yet the answer: every buffer holds something else until the run has written it.
      for (Buffer* buffer : {&o, &lse, &grad_q, &grad_k, &grad_v})
        buffer->upload(std::span<const std::byte>(
            std::vector<std::byte>(static_cast<std::size_t>(buffer->bytes()), std::byte{0xff})));
    }
  };

  Outputs make_outputs(const Device& device) const { return {device, expected_}; }
  void forward(const Outputs& out) const { plan_.forward(args(out)); }
  void backward(const Outputs& out) const { plan_.backward(args(out)); }
  std::string difference(const Outputs& out) const {
    const Results results{out.o.download<float>(),
                          out.lse.download<float>(),
                          out.grad_q.download<float>(),
                          out.grad_k.download<float>(),
                          out.grad_v.download<float>(),
                          {},
                          {},
                          {}};
    return first_difference(expected_, results);
  }

 private:
  crossflash_args args(const Outputs& out) const {
    crossflash_args args = args_;
    args.o = out.o;
    args.lse = out.lse;
    args.grad_q = out.grad_q;
    args.grad_k = out.grad_k;
    args.grad_v = out.grad_v;
    return args;
  }

  Results expected_;  // of a lone run
  Plan plan_;
  Buffer q_, k_, v_, grad_o_;
  crossflash_args args_{};
};

constexpr const char* kOne = "batch=2 seq=65x33 heads=4/2 d=40 causal=top-left";
constexpr const char* kOther = "seq=17x129 heads=2 d=64 dv=24 dropout=0.25 seed=9";

// Two plans take turns between forward and backward, before anything is waited for.
void plans_take_turns(const Device& device) {
  const Job one(device, kOne), other(device, kOther);
  for (int n = 0; n < 5; ++n) {
    const Job::Outputs a = one.make_outputs(device), b = other.make_outputs(device);
    one.forward(a);
    other.forward(b);
    one.backward(a);
    other.backward(b);
    device.wait();
    ASSERT_EQ(one.difference(a), "") << "round " << n;
    ASSERT_EQ(other.difference(b), "") << "round " << n;
  }
}

void threads_share_a_plan(const Device& device) {
  const Job job(device, kOther);
  constexpr int kThreads = 2, kRounds = 10;
  std::string failure[kThreads];
  const auto work = [&](int thread) {
    try {
      for (int n = 0; n < kRounds && failure[thread].empty(); ++n) {
        const Job::Outputs out = job.make_outputs(device);
        job.forward(out);
        job.backward(out);
        failure[thread] = job.difference(out);
      }
    } catch (const std::exception& e) {
      failure[thread] = e.what();
    }
  };
  { const std::jthread first(work, 0), second(work, 1); }
  for (const std::string& text : failure) EXPECT_EQ(text, "");
}

// Small enough for two hundred rounds, large enough for many workgroups that share keys.
void repeats_are_bit_identical(const Device& device) {
  const Job job(device, "batch=4 seq=20x18 heads=2/1 d=8 dropout=0.1 seed=4");
  for (int n = 0; n < 200; ++n) {
    const Job::Outputs out = job.make_outputs(device);
    job.forward(out);
    job.backward(out);
    ASSERT_EQ(job.difference(out), "") << "repeat " << n;
  }
}

// Lengths, offsets, pages and dropout's state are the device's alone: a plan knows nothing of them.
void a_plan_serves_other_lengths(const Device& device) {
  constexpr const char* kRest = "heads=4/2 d=40 causal=bottom-right dropout=0.2 device-seed seed=";
  const std::pair<const char*, const char*> pairs[] = {
      {"rows=lengths lens=33x64,7x90,70x1 1", "rows=lengths lens=70x90,0x17,9x0 2"},
      {"rows=offsets lens=33x64,7x90,70x1 3", "rows=offsets lens=70x70,7x41,33x44 4"},
      {"rows=all/lengths page=16 passes=forward lens=1x64,1x90,1x1 5",
       "rows=all/lengths page=16 passes=forward lens=1x1,1x70,1x75 6"}};
  for (const auto& [one, other] : pairs) {
    const auto execution = [&](std::string line) {
      const auto space = line.rfind(' ');
      return execution_of(
          case_of(line.substr(0, space) + " seq=70x90 " + kRest + line.substr(space + 1)));
    };
    const Execution a = execution(one), b = execution(other);
    if (const auto refused = refusal(device, a.problem)) throw Refused(a.problem, *refused);
    const Results lone = run(device, b);
    const Plan plan(device, a.problem);
    ASSERT_EQ(std::memcmp(&a.problem, &b.problem, sizeof a.problem), 0) << one;
    execute(device, a, plan);
    EXPECT_EQ(first_difference(lone, execute(device, b, plan)), "") << one << ", then " << other;
  }
}

constexpr Scenario kScenarios[] = {
    {"a_plan_serves_other_lengths", a_plan_serves_other_lengths},
    {"plans_take_turns", plans_take_turns},
    {"threads_share_a_plan", threads_share_a_plan},
    {"repeats_are_bit_identical", repeats_are_bit_identical},
};

}  // namespace

std::span<const Scenario> sharing_scenarios() { return kScenarios; }

}  // namespace crossflash::conformance
