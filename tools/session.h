// SPDX-License-Identifier: MIT
// session.h: one problem on one device with its tensors in device memory, ready to run as often as
// wanted: what demo and bench time and judge.
#pragma once

#include <vector>

#include "common/case_line.h"
#include "common/problem.h"
#include "common/reference/attention.h"
#include "crossflash/crossflash.hpp"
#include "tests/conformance/memory.h"

namespace crossflash::tool {

// The problem with the strides that its layout gives it; throws what is wrong with it.
Problem checked_problem(const Case& c);

class Session {
 public:
  // Outputs hold NaN until the first run. The device must outlive the session.
  Session(const Device& device, const Case& c, const reference::Inputs& inputs);

  // Each enqueues its pass and waits for the device; backward follows a forward.
  void forward();
  void backward();
  // Contiguous [batch, seq, heads, width]; lse [batch, heads, seq].
  std::vector<float> output(TensorId id) const;

  // As judge_tensor wants it.
  const Tensor& tensor(TensorId id) const { return arrangement_.place(id).view.tensor; }
  const Problem& problem() const { return problem_; }
  std::string describe() const { return plan_.describe(); }
  std::uint64_t workspace(std::uint32_t pass) const { return plan_.workspace(pass); }

 private:
  void give_options(const Case& c, const reference::Inputs& inputs);

  const Device& device_;
  const Problem problem_;
  const Plan plan_;
  const conformance::Arrangement arrangement_;
  std::vector<conformance::Block> images_;  // one for each block of the arrangement
  std::vector<Buffer> buffers_;             // of the blocks, then of options
  crossflash_args args_ = make_args();
};

}  // namespace crossflash::tool
