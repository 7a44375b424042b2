// SPDX-License-Identifier: MIT
// conformance.h: runs one case on one device through the public API and judges it against the
// reference. Used by the conformance tests and by `crossflash check`.
//
// The rule: with `exact` the double reference and `plain` the unfused computation in the tensors'
// type, max|out - exact| <= factor * max|plain - exact| + floor; factor 2 for o and lse, 3 for
// gradients; floor is the rounding of the type (see compare.h). Every output holds NaN before the
// call, guard words lie before and behind it and in the gaps of its strides, and input gaps and
// tails hold NaN. Every pass runs twice and must give the same bits (execute.h).
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/case_line.h"
#include "crossflash/crossflash.hpp"

namespace crossflash::conformance {

enum class Verdict { passed, failed, unsupported };

struct TensorReport {
  std::string name;
  double error = 0;        // max|out - exact|
  double plain_error = 0;  // max|plain - exact|
  double tolerance = 0;
};

struct Report {
  Verdict verdict = Verdict::failed;
  std::string reason;    // why it failed or is unsupported; ends with the case line, ready to paste
  std::string describe;  // the plan's
  std::vector<TensorReport> tensors;
  std::uint64_t workspace = 0;  // bytes, of the pass that needs most
};

// Never throws for what the device does wrong; that is a failed report.
Report run_case(const Case& c, const Device& device);

// A case of a size that a CPU does in well under a second, drawn over every option and edge.
Case random_case(std::mt19937_64& random);

}  // namespace crossflash::conformance
