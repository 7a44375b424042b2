// SPDX-License-Identifier: MIT
// execute.h: runs one problem on a device through the public API, with everything around the
// tensors guarded, and hands back contiguous results. Each pass runs twice, once with a workspace
// of the caller's that holds NaN between guards and once with the device's pool; backward reads the
// o and lse that forward left on the device. What may not happen whatever the values are (guards
// changed, inputs written, two runs that differ, supports() and plan at odds) throws Misbehaviour.
#pragma once

#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/case_line.h"
#include "common/reference/attention.h"
#include "crossflash/crossflash.hpp"
#include "tests/conformance/memory.h"

namespace crossflash::conformance {

class Misbehaviour : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Contiguous, in the reference's order; gradients are empty without backward, o and lse without
// forward. As in the reference rows of no sequence hold 0 (lse -inf).
struct Results {
  std::vector<float> o, lse, grad_q, grad_k, grad_v, grad_bias, grad_sink;
  std::string describe;
  std::uint64_t workspace = 0;
};

struct Execution {
  crossflash_problem problem;  // with its strides
  Arrangement arrangement;
  reference::Inputs inputs;
  std::uint64_t seed = 0, offset = 0;
  float gap = std::numeric_limits<float>::quiet_NaN();  // what lies around the inputs
};

// The execution of a case; refused if the problem is.
Status make_execution(const Case& c, Execution* out);

// The refusal of the problem by the device, or nothing if it can be run. supports() and making a
// plan must agree.
std::optional<Status> refusal(const Device& device, const crossflash_problem& problem);

// A problem of backward alone is fed o and lse from the device's forward of the same problem.
Results execute(const Device& device, const Execution& execution);
// The same with a plan of the same problem that others may have run before.
Results execute(const Device& device, const Execution& execution, const Plan& plan);

// The name of the first tensor of which the bits differ; empty: all are equal.
std::string first_difference(const Results& a, const Results& b);

}  // namespace crossflash::conformance
