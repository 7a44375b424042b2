// SPDX-License-Identifier: MIT
#include "tests/conformance/subject.h"

#include <fmt/format.h>

#include <algorithm>

namespace crossflash::conformance {

Subjects::Subjects(const std::string& backend) {
  std::vector<std::string> names = Device(backend).variants();
  if (names.empty()) names.emplace_back();  // a backend of one nameless variant
  for (const std::string& name : names)
    subjects_.push_back(std::make_unique<Subject>(Subject{name, Device(backend, name)}));
}

std::string Subjects::name() const {
  const crossflash_device_info info = subjects_.front()->device.info();
  return fmt::format("{}: {}, {}", info.backend, info.name, info.driver);
}

bool Subjects::any_supports(const crossflash_problem& problem) const {
  return std::any_of(subjects_.begin(), subjects_.end(), [&](const auto& subject) {
    return crossflash_supports(subject->device.get(), &problem) == CROSSFLASH_OK;
  });
}

Case case_of(std::string_view line) {
  Case c;
  const Status status = parse_case(line, &c);
  if (!status.ok()) throw std::logic_error(status.text());
  return c;
}

Execution execution_of(const Case& c) {
  Execution execution;
  const Status status = make_execution(c, &execution);
  if (!status.ok()) throw std::logic_error(status.text());
  return execution;
}

Results run(const Device& device, const Execution& execution) {
  if (const auto refused = refusal(device, execution.problem))
    throw Refused(execution.problem, *refused);
  return execute(device, execution);
}

Results run(const Device& device, const Case& c) { return run(device, execution_of(c)); }

}  // namespace crossflash::conformance
