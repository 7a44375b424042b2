// SPDX-License-Identifier: MIT
// The C API on the backend "cpu", which every build has: what it refuses and says, and that a plan
// may be run from several threads, with workspace given or not, to the same bits.
#include <cstring>
#include <string>
#include <thread>

#include "crossflash/crossflash.hpp"
#include "tests/unit/support.h"

extern "C" const char* crossflash_test_from_c(void);

namespace crossflash {
namespace {

using testing::elements;
using testing::problem_of;

crossflash_device* open_cpu() {
  crossflash_device_options options{sizeof options, "cpu", nullptr, nullptr};
  crossflash_device* device = nullptr;
  EXPECT_EQ(crossflash_device_open(&options, &device), CROSSFLASH_OK) << crossflash_last_error();
  return device;
}

class Api : public ::testing::Test {
 protected:
  ~Api() override { crossflash_device_close(device_); }

  void expect_refused(crossflash_status status, crossflash_status code, const std::string& begin) {
    EXPECT_EQ(status, code);
    EXPECT_TRUE(std::string(crossflash_last_error()).starts_with(begin)) << crossflash_last_error();
  }

  crossflash_device* const device_ = open_cpu();
};

TEST_F(Api, WorksFromC) { EXPECT_EQ(crossflash_test_from_c(), nullptr); }

TEST_F(Api, NullPointersAreNamed) {
  crossflash_plan* plan = nullptr;
  const crossflash_problem problem = problem_of(1, 1, 1, 1, 1, 1, 1);
  expect_refused(crossflash_device_open(nullptr, nullptr), CROSSFLASH_INVALID, "device is NULL");
  expect_refused(crossflash_plan_create(nullptr, &problem, &plan), CROSSFLASH_INVALID,
                 "device is NULL");
  expect_refused(crossflash_plan_create(device_, nullptr, &plan), CROSSFLASH_INVALID,
                 "problem is NULL");
  expect_refused(crossflash_plan_create(device_, &problem, nullptr), CROSSFLASH_INVALID,
                 "plan is NULL");
  expect_refused(crossflash_forward(nullptr, nullptr), CROSSFLASH_INVALID, "plan is NULL");
  expect_refused(crossflash_list_devices(nullptr, 0, nullptr), CROSSFLASH_INVALID, "count is NULL");
}

TEST_F(Api, OptionsThatTheCpuLacksAreRefused) {
  crossflash_device* device = nullptr;
  const auto open = [&](const char* backend, const char* variant, const char* limits) {
    const crossflash_device_options options{sizeof options, backend, variant, limits};
    return crossflash_device_open(&options, &device);
  };
  expect_refused(open("gpu9", nullptr, nullptr), CROSSFLASH_UNSUPPORTED, "backend is \"gpu9\";");
  expect_refused(open("cpu:1", nullptr, nullptr), CROSSFLASH_UNSUPPORTED, "backend is \"cpu:1\";");
  expect_refused(open("cpu:x", nullptr, nullptr), CROSSFLASH_INVALID, "backend is \"cpu:x\";");
  expect_refused(open("cpu", "warp", nullptr), CROSSFLASH_UNSUPPORTED, "variant is \"warp\";");
  EXPECT_NE(std::strstr(crossflash_last_error(), "blocked"), nullptr) << crossflash_last_error();
  expect_refused(open("cpu", nullptr, "floor"), CROSSFLASH_UNSUPPORTED, "limits is \"floor\";");
  EXPECT_EQ(device, nullptr);
}

TEST_F(Api, DescribesTheDevice) {
  crossflash_device_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(crossflash_device_get_info(device_, &info), CROSSFLASH_OK);
  EXPECT_STREQ(info.backend, "cpu");
  EXPECT_EQ(info.usable, 1);
  EXPECT_NE(info.name[0], '\0');
  EXPECT_STREQ(crossflash_device_variant(device_, 0), "blocked");
  EXPECT_EQ(crossflash_device_variant(device_, 1), nullptr);
}

TEST_F(Api, ARunNeedsItsBuffersAndItsPass) {
  crossflash_problem problem = problem_of(1, 2, 2, 1, 1, 4, 4);
  problem.passes = CROSSFLASH_FORWARD;
  problem.dtype = CROSSFLASH_F16;
  crossflash_plan* plan = nullptr;
  ASSERT_EQ(crossflash_plan_create(device_, &problem, &plan), CROSSFLASH_OK);
  std::vector<float> memory(64);
  crossflash_args args{};
  args.struct_size = sizeof args;
  for (crossflash_buffer* buffer : {&args.q, &args.k, &args.v, &args.o})
    buffer->handle = memory.data();
  expect_refused(crossflash_forward(plan, &args), CROSSFLASH_INVALID, "lse is NULL;");
  args.lse.handle = memory.data();
  args.k.offset = 1;
  expect_refused(crossflash_forward(plan, &args), CROSSFLASH_INVALID, "k.offset is 1;");
  args.k.offset = 0;
  args.stream = memory.data();
  expect_refused(crossflash_forward(plan, &args), CROSSFLASH_UNSUPPORTED, "stream is 0x");
  args.stream = nullptr;
  expect_refused(crossflash_backward(plan, &args), CROSSFLASH_INVALID, "passes of this plan");
  args.struct_size = 3;
  expect_refused(crossflash_forward(plan, &args), CROSSFLASH_INVALID, "struct_size is 3;");
  crossflash_plan_destroy(plan);
}

TEST_F(Api, APlanRunsFromSeveralThreadsToTheSameBits) {
  crossflash_problem problem = problem_of(2, 70, 90, 4, 2, 16, 24);
  problem.dropout = 0.2f;
  problem.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT;
  const Problem p = testing::checked(problem);
  reference::Inputs in = testing::random_inputs(p);
  crossflash_plan* plan = nullptr;
  ASSERT_EQ(crossflash_plan_create(device_, &problem, &plan), CROSSFLASH_OK);
  const std::uint64_t workspace_bytes = crossflash_plan_workspace(plan, CROSSFLASH_BACKWARD);
  EXPECT_EQ(workspace_bytes, 2 * (2 * 4 * 70) * sizeof(float));
  EXPECT_EQ(crossflash_plan_workspace(plan, CROSSFLASH_FORWARD), 0u);

  struct Results {
    std::vector<float> o, lse, grad_q, grad_k, grad_v;
    crossflash_status status = CROSSFLASH_OK;
    bool operator==(const Results&) const = default;
  };
  const auto run = [&](bool give_workspace, Results* out) {
    const std::vector<float> nan(
        elements(p, TensorId::o) + elements(p, TensorId::k) + elements(p, TensorId::v), NAN);
    const auto output = [&](std::vector<float>* tensor, TensorId id) {
      tensor->assign(nan.begin(), nan.begin() + static_cast<std::ptrdiff_t>(elements(p, id)));
      return crossflash_buffer{tensor->data(), 0};
    };
    std::vector<float> workspace(workspace_bytes / sizeof(float) + 1, NAN);
    crossflash_args args{};
    args.struct_size = sizeof args;
    args.q.handle = in.q.data();
    args.k.handle = in.k.data();
    args.v.handle = in.v.data();
    args.grad_o.handle = in.grad_o.data();
    args.o = output(&out->o, TensorId::o);
    args.lse = output(&out->lse, TensorId::lse);
    args.grad_q = output(&out->grad_q, TensorId::q);
    args.grad_k = output(&out->grad_k, TensorId::k);
    args.grad_v = output(&out->grad_v, TensorId::v);
    args.seed = 0x123456789abcdefu;
    args.offset = 5;
    if (give_workspace) args.workspace = {workspace.data(), sizeof(float)};
    out->status = crossflash_forward(plan, &args);
    if (out->status == CROSSFLASH_OK) out->status = crossflash_backward(plan, &args);
  };

  std::vector<Results> results(6);
  {
    std::vector<std::jthread> threads;
    for (std::size_t n = 0; n < results.size(); ++n)
      threads.emplace_back([&, n] { run(n % 2 == 0, &results[n]); });
  }
  const reference::Outputs exact = reference::exact_attention(p, in);
  const auto widened = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  EXPECT_EQ(results[0].status, CROSSFLASH_OK);
  EXPECT_LT(testing::max_error(widened(results[0].o), exact.o), 5e-6);
  EXPECT_LT(testing::max_error(widened(results[0].lse), exact.lse), 5e-6);
  EXPECT_LT(testing::max_error(widened(results[0].grad_q), exact.grad_q), 2e-5);
  EXPECT_LT(testing::max_error(widened(results[0].grad_k), exact.grad_k), 2e-5);
  EXPECT_LT(testing::max_error(widened(results[0].grad_v), exact.grad_v), 2e-5);
  for (const Results& other : results) EXPECT_TRUE(other == results[0]);
  crossflash_plan_destroy(plan);
}

}  // namespace
}  // namespace crossflash
