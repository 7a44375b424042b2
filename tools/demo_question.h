// SPDX-License-Identifier: MIT
// demo_question.h: what demo asks of every device: attention on given tensors in one type, under
// one mask, with the right answers; and what a device answers.
#pragma once

#include <string>
#include <vector>

#include "common/case_line.h"
#include "common/half.h"
#include "common/reference/attention.h"
#include "tests/conformance/conformance.h"
#include "tools/tensor_file.h"

namespace crossflash::tool {

// The demo's tensors, [batch, seq, heads, d] as in their files.
struct DemoData {
  TensorFile q, k, v, grad_o;
};

DemoData read_demo_data(const std::string& directory);

// One type and mask, with its right answers.
struct Question {
  Case problem;
  reference::Inputs inputs;
  reference::Outputs exact, plain;

  std::string type() const { return dtype_name(problem.problem.dtype); }
  std::string mask() const {
    return problem.problem.causal == CROSSFLASH_NOT_CAUSAL ? "full" : "causal";
  }
};

// One device's answer to a question.
struct Answer {
  std::string describe;
  conformance::TensorReport worst;  // the tensor that comes closest to its tolerance
  std::vector<std::string> failures;
  double forward_seconds = 0, backward_seconds = 0;
  crossflash_status status = CROSSFLASH_OK;  // else the device refused, or failed, for
  std::string reason;
};

Question make_question(const DemoData& data, crossflash_dtype dtype, crossflash_causal causal);

// Runs, judges and times both passes. Never throws for what the device does.
Answer ask(const Device& device, const Question& question);

}  // namespace crossflash::tool
