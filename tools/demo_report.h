// SPDX-License-Identifier: MIT
// demo_report.h: what demo says: one table with a row for each answer, what was refused, failed or
// wrong, and the verdict as the last line.
#pragma once

#include <string>
#include <vector>

#include "tools/demo_question.h"
#include "tools/device_choice.h"
#include "tools/table.h"

namespace crossflash::tool {

class DemoReport {
 public:
  DemoReport();
  void begin_device();
  void add(const Candidate& device, const Question& question, const Answer& answer);
  void add_unusable(const Candidate& device);

  ExitCode code() const;
  void print(bool as_json) const;

 private:
  void add_row(const Candidate& device, const Question& question, const Answer& answer);
  std::string verdict() const;

  Table table_;
  nlohmann::json json_ = nlohmann::json::array();
  std::vector<std::string> wrong_, failed_, refused_;
  std::size_t runs_ = 0;
};

}  // namespace crossflash::tool
