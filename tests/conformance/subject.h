// SPDX-License-Identifier: MIT
// subject.h: the device under test, opened once for each of its kernel variants, and the rule for
// what a variant may refuse: only what another variant of the same device can do. Such a test is
// skipped with the reason; anything else that is refused fails.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/case_line.h"
#include "crossflash/crossflash.hpp"
#include "tests/conformance/execute.h"

namespace crossflash::conformance {

struct Subject {
  std::string variant;
  Device device;
};

class Subjects {
 public:
  // `backend` as in crossflash_device_options. Throws Error if there is no such device.
  explicit Subjects(const std::string& backend);

  const std::vector<std::unique_ptr<Subject>>& all() const { return subjects_; }
  // "vulkan: name, driver".
  std::string name() const;
  bool any_supports(const crossflash_problem& problem) const;

 private:
  std::vector<std::unique_ptr<Subject>> subjects_;
};

// Thrown by a scenario for a problem that its variant refuses.
class Refused : public std::runtime_error {
 public:
  Refused(const crossflash_problem& problem, const Status& status)
      : std::runtime_error(status.text()), problem_(problem) {}
  const crossflash_problem& problem() const { return problem_; }

 private:
  crossflash_problem problem_;
};

// The case of a line that is known to be good.
Case case_of(std::string_view line);
Execution execution_of(const Case& c);

// Runs, or throws Refused.
Results run(const Device& device, const Execution& execution);
Results run(const Device& device, const Case& c);

}  // namespace crossflash::conformance
