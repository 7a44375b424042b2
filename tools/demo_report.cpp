// SPDX-License-Identifier: MIT
// demo_report.cpp: see demo_report.h.
#include "tools/demo_report.h"

#include "bench/flops.h"
#include "tools/session.h"

namespace crossflash::tool {
namespace {

// The words that name the kernel in "backend kernel type: more".
std::string kernel_name(const std::string& describe) {
  const std::string head = describe.substr(0, describe.find(':'));
  const auto begin = head.find(' ');
  const auto end = head.rfind(' ');
  return begin == std::string::npos || begin >= end ? head
                                                    : head.substr(begin + 1, end - begin - 1);
}

// A device's name without what its driver adds in brackets.
std::string short_device_name(const std::string& name) {
  const std::string head = name.substr(0, name.find('('));
  return head.substr(0, head.find_last_not_of(' ') + 1);
}

// The tensors' names as in the literature, and in the files.
std::string short_name(const std::string& tensor) {
  return tensor.starts_with("grad_") ? "d" + tensor.substr(5) : tensor;
}

nlohmann::json to_json(const Candidate& device, const Question& question, const Answer& a) {
  nlohmann::json row = {{"device", device.selector},
                        {"name", device.name},
                        {"type", question.type()},
                        {"mask", question.mask()},
                        {"status", crossflash_status_name(a.status)}};
  if (a.status != CROSSFLASH_OK) {
    row["reason"] = a.reason;
    return row;
  }
  row["plan"] = a.describe;
  row["right"] = a.failures.empty();
  row["worst"] = {{"tensor", short_name(a.worst.name)},
                  {"error", a.worst.error},
                  {"plain_error", a.worst.plain_error},
                  {"tolerance", a.worst.tolerance}};
  row["forward_seconds"] = a.forward_seconds;
  row["backward_seconds"] = a.backward_seconds;
  return row;
}

}  // namespace

DemoReport::DemoReport()
    : table_({{"device", Table::Align::left, 9},
              {"name", Table::Align::left, 20},
              {"kernel", Table::Align::left, 12},
              {"type"},
              {"mask"},
              {"worst"},
              {"error", Table::Align::right},
              {"plain", Table::Align::right},
              {"fwd ms", Table::Align::right},
              {"bwd ms", Table::Align::right},
              {"fwd GF/s", Table::Align::right},
              {"bwd GF/s", Table::Align::right}}) {}

void DemoReport::begin_device() {
  if (!json_.empty()) table_.add_rule();
}

void DemoReport::add(const Candidate& device, const Question& question, const Answer& answer) {
  const std::string where =
      fmt::format("{} {} {}", device.selector, question.type(), question.mask());
  if (answer.status != CROSSFLASH_OK) {
    const bool refused = answer.status == CROSSFLASH_UNSUPPORTED;
    (refused ? refused_ : failed_).push_back(where + ": " + answer.reason);
    table_.add_row({device.selector, short_device_name(device.name), refused ? "refused" : "failed",
                    question.type(), question.mask(), "-", "-", "-", "-", "-", "-", "-"});
  } else {
    for (const std::string& failure : answer.failures) wrong_.push_back(where + ": " + failure);
    add_row(device, question, answer);
    ++runs_;
  }
  json_.push_back(to_json(device, question, answer));
}

void DemoReport::add_unusable(const Candidate& device) {
  (device.status == CROSSFLASH_DEVICE_ERROR ? failed_ : refused_)
      .push_back(device.selector + ": not usable: " + device.reason);
}

ExitCode DemoReport::code() const {
  if (!wrong_.empty()) return ExitCode::wrong;
  return failed_.empty() && runs_ > 0 ? ExitCode::right : ExitCode::unsupported;
}

void DemoReport::print(bool as_json) const {
  if (as_json) {
    print_json({{"results", json_},
                {"wrong", wrong_},
                {"failed", failed_},
                {"refused", refused_},
                {"verdict", verdict()}});
    return;
  }
  fmt::print("{}", table_.text());
  for (const auto* notes : {&refused_, &failed_, &wrong_})
    for (const std::string& note : *notes) fmt::print("{}\n", note);
  fmt::print("{}\n", verdict());
}

void DemoReport::add_row(const Candidate& device, const Question& question, const Answer& a) {
  const auto gflops = [](double flops, double seconds) {
    return format_figure(flops / seconds * 1e-9);
  };
  const Problem problem = checked_problem(question.problem);
  const crossflash_causal causal = question.problem.problem.causal;
  table_.add_row({device.selector, short_device_name(device.name), kernel_name(a.describe),
                  question.type(), question.mask(), short_name(a.worst.name),
                  format_error(a.worst.error), format_error(a.worst.plain_error),
                  format_figure(a.forward_seconds * 1e3), format_figure(a.backward_seconds * 1e3),
                  gflops(bench::forward_flops(problem, causal), a.forward_seconds),
                  gflops(bench::backward_flops(problem, causal), a.backward_seconds)});
}

std::string DemoReport::verdict() const {
  if (!wrong_.empty())
    return fmt::format("WRONG: {} tensors of {} runs are outside their tolerance", wrong_.size(),
                       runs_);
  if (!failed_.empty()) return fmt::format("FAILED: {} device errors", failed_.size());
  if (runs_ == 0) return "NOTHING RAN: no device here can do any of it";
  return fmt::format(
      "all right: {} runs within the tolerance (2 x the plain computation's error for o and lse, "
      "3 x for gradients)",
      runs_);
}

}  // namespace crossflash::tool
