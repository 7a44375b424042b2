// SPDX-License-Identifier: MIT
// compare.h: the judge of one output tensor. A value passes if it is off the double reference by at
// most factor * max|plain - exact| + floor, where `plain` is the unfused computation in the
// tensor's type; written so that NaN fails. An infinity must be met exactly.
#pragma once

#include <span>
#include <string>

#include "common/problem.h"
#include "tests/conformance/conformance.h"

namespace crossflash::conformance {

// The error that is left to a result that was computed without any: it is rounded to the type
// (half a unit in the last place of the largest value), after f32 arithmetic that in the best of
// kernels rounds the scale, the change of base to exp2 and back, the weight, the normalisation and
// their sums: four units in the last place of f32; and that may flush subnormal f32 to zero, as
// Vulkan allows: 2^-126 in each of the terms that the result adds up, whose weights sum to `gain`.
double rounding_floor(crossflash_dtype dtype, double largest, double gain);

struct Judgement {
  TensorReport report;
  std::string failure;  // empty: passed
};

// `gain` as in rounding_floor.
Judgement judge_tensor(TensorId id, const Tensor& tensor, std::span<const float> out,
                       std::span<const double> exact, std::span<const double> plain,
                       double gain = 1);
// Of grad_bias or grad_sink.
Judgement judge_option(OptionId id, const Problem& problem, std::span<const float> out,
                       std::span<const double> exact, std::span<const double> plain,
                       double gain = 1);

}  // namespace crossflash::conformance
