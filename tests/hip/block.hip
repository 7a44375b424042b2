// SPDX-License-Identifier: MIT
// block.hip: reductions and scans over a block, on a GPU, against a loop on the host: the combine
// of softmax states, most of them empty or all of them, and a scan of an operator that does not
// commute.
#include "hip/tile/block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "hip/runtime.h"

namespace crossflash::hip {
namespace {

template <int kThreads>
__global__ void reduce_states(const SoftmaxState* x, SoftmaxState* result) {
  using States = Block<SoftmaxState, kThreads>;
  __shared__ typename States::Storage storage;
  // Twice: the storage must be free again.
  const SoftmaxState one = States(storage).reduce(x[threadIdx.x], CombineStates{});
  const SoftmaxState two = States(storage).reduce(x[threadIdx.x], CombineStates{});
  result[threadIdx.x] = one.m == two.m && one.l == two.l ? two : empty_state();
}

// x -> factor x + offset; one after the other.
struct Line {
  unsigned factor, offset;
};
struct Then {
  __host__ __device__ Line operator()(Line first, Line second) const {
    return {first.factor * second.factor, second.factor * first.offset + second.offset};
  }
};
__device__ __host__ bool operator==(Line a, Line b) {
  return a.factor == b.factor && a.offset == b.offset;
}

template <int kThreads>
__global__ void scan_lines(const Line* x, Line* before, Line* all) {
  using Lines = Block<Line, kThreads>;
  __shared__ typename Lines::Storage storage;
  before[threadIdx.x] = Lines(storage).exclusive_scan(x[threadIdx.x], {1, 0}, Then{}, *all);
}

void check_hip(hipError_t error) { ASSERT_EQ(error, hipSuccess) << hipGetErrorString(error); }

// Device memory with a copy of some values, which can be taken back.
template <class X>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<X>& values) : size_(values.size()) {
    check_hip(hipMalloc(&data_, size_ * sizeof(X)));
    check_hip(hipMemcpyAsync(data_, values.data(), size_ * sizeof(X), hipMemcpyHostToDevice, {}));
  }
  ~OnDevice() { check_hip(hipFree(data_)); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  X* get() const { return static_cast<X*>(data_); }
  std::vector<X> values() const {
    std::vector<X> values(size_);
    check_hip(hipMemcpyAsync(values.data(), data_, size_ * sizeof(X), hipMemcpyDeviceToHost, {}));
    check_hip(hipStreamSynchronize({}));
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

// `empty` of 8 states are empty.
template <int kThreads>
void check_states(unsigned empty) {
  std::mt19937 random(empty);
  std::vector<SoftmaxState> states(kThreads);
  double m = -INFINITY, l = 0;
  for (SoftmaxState& state : states) {
    state = {shared::cf_neg_inf(), 0.0f};
    if (random() % 8 < empty) continue;
    state = {static_cast<float>(random() % 4000) / 20 - 100, 1 + static_cast<float>(random() % 64)};
    m = std::fmax(m, static_cast<double>(state.m));
  }
  for (const SoftmaxState& state : states)
    if (state.l > 0) l += static_cast<double>(state.l) * std::exp(static_cast<double>(state.m) - m);
  const OnDevice<SoftmaxState> x(states), result(states);
  reduce_states<kThreads><<<1, kThreads>>>(x.get(), result.get());
  check_hip(hipGetLastError());
  for (const SoftmaxState& state : result.values()) {
    EXPECT_EQ(static_cast<double>(state.m), m);
    EXPECT_NEAR(static_cast<double>(state.l), l, 2e-5 * l);
  }
}

TEST(HipBlock, StatesCombine) {
  for (const unsigned empty : {0u, 7u, 8u}) {
    check_states<64>(empty);
    check_states<128>(empty);
    check_states<256>(empty);
  }
}

template <int kThreads>
void check_lines() {
  std::mt19937 random(kThreads);
  std::vector<Line> lines(kThreads), expected(kThreads);
  Line all{1, 0};
  for (int n = 0; n < kThreads; ++n) {
    lines[n] = {static_cast<unsigned>(random()) | 1, static_cast<unsigned>(random())};
    expected[n] = all;
    all = Then{}(all, lines[n]);
  }
  const OnDevice<Line> x(lines), before(lines), last(std::vector<Line>(1));
  scan_lines<kThreads><<<1, kThreads>>>(x.get(), before.get(), last.get());
  check_hip(hipGetLastError());
  EXPECT_TRUE(before.values() == expected) << kThreads;
  EXPECT_TRUE(last.values()[0] == all) << kThreads;
}

TEST(HipBlock, ScansKeepTheOrder) {
  check_lines<64>();
  check_lines<128>();
  check_lines<256>();
}

}  // namespace
}  // namespace crossflash::hip
