// SPDX-License-Identifier: MIT
// streams.cpp: a HIP program's own streams, on a GPU: enqueued there and not waited for, several at
// once, captured in a graph and replayed on other inputs. All must give the bits of a plain run.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "crossflash/crossflash.hpp"
#include "crossflash/hip.h"
#include "hip/runtime.h"

namespace crossflash {
namespace {

void check_hip(hipError_t error) { ASSERT_EQ(error, hipSuccess) << hipGetErrorString(error); }

// A bf16 problem with all that a run needs in device memory, and its results in one vector.
class Job {
 public:
  Job(const Device& device, std::int64_t seq, unsigned seed) : device_(device) {
    crossflash_problem problem = make_problem(2, seq, seq, 4, 2, 64, CROSSFLASH_BF16);
    problem.passes = CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD;
    problem.causal = CROSSFLASH_CAUSAL_TOP_LEFT;
    problem.dropout = 0.1f;
    problem.deterministic = 1;
    plan_.emplace(device, problem);
    const std::uint64_t of_q = static_cast<std::uint64_t>(2 * seq * 4 * 64) * 2, of_k = of_q / 2;
    for (const std::uint64_t bytes :
         {of_q, of_k, of_k, of_q, of_q * 2 / 64, of_q, of_q, of_k, of_k})
      buffers_.emplace_back(device, bytes);
    crossflash_buffer* const slots[] = {&args_.q,      &args_.k,      &args_.v,
                                        &args_.o,      &args_.lse,    &args_.grad_o,
                                        &args_.grad_q, &args_.grad_k, &args_.grad_v};
    for (std::size_t n = 0; n < buffers_.size(); ++n) *slots[n] = buffers_[n];
    args_.seed = 7;
    fill(seed);
  }

  void fill(unsigned seed) {
    std::mt19937 random(seed);
    for (const std::size_t input : {0, 1, 2, 5}) {
      std::vector<std::uint16_t> data(buffers_[input].bytes() / 2);
      for (std::uint16_t& x : data)  // a sign and a magnitude of 1/8 to 2
        x = static_cast<std::uint16_t>((random() & 0x8000u) + 0x3e00u + (random() & 0x1ffu));
      buffers_[input].upload(std::span<const std::uint16_t>(data));
    }
  }
  void spoil_outputs() {
    for (const std::size_t output : {3, 4, 6, 7, 8})
      buffers_[output].upload(std::span<const std::byte>(
          std::vector<std::byte>(buffers_[output].bytes(), std::byte{0xff})));
  }
  void enqueue(void* stream) {
    args_.stream = stream;
    plan_->forward(args_);
    plan_->backward(args_);
  }
  std::vector<std::byte> results() const {
    std::vector<std::byte> all;
    for (const std::size_t output : {3, 4, 6, 7, 8}) {
      const std::vector<std::byte> one = buffers_[output].download<std::byte>();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  // What a run on the device's own stream gives for these inputs.
  std::vector<std::byte> expected(unsigned seed) {
    fill(seed);
    spoil_outputs();
    enqueue(nullptr);
    device_.wait();
    return results();
  }

 private:
  const Device& device_;
  std::optional<Plan> plan_;
  std::vector<Buffer> buffers_;
  crossflash_args args_ = make_args();
};

class HipStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    for (hipStream_t& stream : streams_)
      check_hip(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  }
  void TearDown() override {
    for (hipStream_t stream : streams_) check_hip(hipStreamDestroy(stream));
  }

  const Device device_{"hip"};
  hipStream_t streams_[2] = {};
};

TEST_F(HipStreams, OneThatIsTheCallersGivesTheSameBits) {
  Job job(device_, 300, 1);
  const std::vector<std::byte> expected = job.expected(1);
  job.spoil_outputs();
  job.enqueue(streams_[0]);
  check_hip(hipStreamSynchronize(streams_[0]));
  EXPECT_EQ(job.results(), expected);
}

TEST_F(HipStreams, TwoPlansInterleaveOnTwo) {
  Job one(device_, 700, 1), other(device_, 333, 2);
  const std::vector<std::byte> expected_one = one.expected(1), expected_other = other.expected(2);
  for (int round = 0; round < 20; ++round) {
    one.spoil_outputs();
    other.spoil_outputs();
    one.enqueue(streams_[0]);
    other.enqueue(streams_[1]);
    one.enqueue(streams_[0]);
    check_hip(hipStreamSynchronize(streams_[0]));
    check_hip(hipStreamSynchronize(streams_[1]));
    ASSERT_EQ(one.results(), expected_one) << "round " << round;
    ASSERT_EQ(other.results(), expected_other) << "round " << round;
  }
}

// The plan's own workspace is handed from stream to stream.
TEST_F(HipStreams, OnePlanChangesBetweenTwo) {
  Job job(device_, 700, 3);
  const std::vector<std::byte> expected = job.expected(3);
  for (int round = 0; round < 20; ++round) {
    job.spoil_outputs();
    for (int n = 0; n < 4; ++n) job.enqueue(streams_[n % 2]);
    job.enqueue(nullptr);
    device_.wait();
    for (hipStream_t stream : streams_) check_hip(hipStreamSynchronize(stream));
    ASSERT_EQ(job.results(), expected) << "round " << round;
  }
}

TEST_F(HipStreams, AGraphReplaysOnNewInputs) {
  Job job(device_, 257, 4);
  const std::vector<std::byte> expected = job.expected(5);
  job.fill(4);
  hipGraph_t graph{};
  check_hip(hipStreamBeginCapture(streams_[0], hipStreamCaptureModeThreadLocal));
  job.enqueue(streams_[0]);
  check_hip(hipStreamEndCapture(streams_[0], &graph));
  hipGraphExec_t replay{};
  check_hip(hipGraphInstantiateWithFlags(&replay, graph, 0));
  job.fill(5);
  for (int n = 0; n < 3; ++n) {
    job.spoil_outputs();
    check_hip(hipGraphLaunch(replay, streams_[1]));
    check_hip(hipStreamSynchronize(streams_[1]));
    EXPECT_EQ(job.results(), expected);
  }
  check_hip(hipGraphExecDestroy(replay));
  check_hip(hipGraphDestroy(graph));
}

TEST_F(HipStreams, MemoryMayBeTheCallers) {
  const Plan plan(device_, make_problem(1, 2, 2, 1, 1, 4, CROSSFLASH_F32));
  void* memory = nullptr;
  check_hip(hipMalloc(&memory, 5 * 32));
  const std::vector<float> inputs(24, 1.0f);
  check_hip(hipMemcpyAsync(memory, inputs.data(), 96, hipMemcpyHostToDevice, streams_[0]));
  const auto at = [&](int n) { return crossflash_hip_buffer(static_cast<char*>(memory) + 32 * n); };
  crossflash_args args = make_args();
  args.q = at(0);
  args.k = at(1);
  args.v = at(2);
  args.o = at(3);
  args.lse = at(4);
  args.stream = streams_[0];
  plan.forward(args);
  std::vector<float> o(8);
  check_hip(hipMemcpyAsync(o.data(), at(3).handle, 32, hipMemcpyDeviceToHost, streams_[0]));
  check_hip(hipStreamSynchronize(streams_[0]));
  EXPECT_EQ(o, std::vector<float>(8, 1.0f));
  check_hip(hipFree(memory));
}

TEST_F(HipStreams, ADeviceIsOpenedByItsOrdinalAndTheCurrentOneIsKept) {
  int before = -1, after = -1;
  check_hip(hipGetDevice(&before));
  crossflash_device* device = nullptr;
  ASSERT_EQ(crossflash_hip_device_open(0, &device), CROSSFLASH_OK) << crossflash_last_error();
  crossflash_device_close(device);
  EXPECT_EQ(crossflash_hip_device_open(4096, &device), CROSSFLASH_UNSUPPORTED);
  check_hip(hipGetDevice(&after));
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace crossflash
