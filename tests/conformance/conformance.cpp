// SPDX-License-Identifier: MIT
#include "tests/conformance/conformance.h"

#include <fmt/format.h>

#include <exception>

#include "tests/conformance/compare.h"
#include "tests/conformance/execute.h"
#include "tests/conformance/yardstick.h"

namespace crossflash::conformance {
namespace {

// "" or why the results are wrong, with a report for each tensor.
std::string judge(const Execution& execution, const Results& results,
                  std::vector<TensorReport>* reports) {
  Problem problem;
  const Status status = check_problem(execution.problem, &problem);
  if (!status.ok()) return status.text();
  const auto exact = reference::exact_attention(problem, execution.inputs);
  const auto plain = plain_yardstick(problem, execution.inputs, exact);
  std::string failures;
  const auto keep = [&](const Judgement& j) {
    reports->push_back(j.report);
    if (!j.failure.empty()) failures += (failures.empty() ? "" : "\n") + j.failure;
  };
  const auto tensor = [&](TensorId id, const std::vector<float>& out, const std::vector<double>& e,
                          const std::vector<double>& p) {
    // A row's p z adds up to 1/(1 - dropout) at most; a column's to that for each query.
    const bool column = id == TensorId::grad_k || id == TensorId::grad_v;
    const double terms = column ? static_cast<double>(problem.seq_q * problem.group()) : 1;
    const Judgement j = judge_tensor(id, execution.arrangement.place(id).view.tensor, out, e, p,
                                     terms / (1 - static_cast<double>(problem.dropout)));
    keep(j);
  };
  const auto option = [&](OptionId id, const std::vector<float>& out, const std::vector<double>& e,
                          const std::vector<double>& p) {
    if (!problem.uses(id, true)) return;
    const auto scores = static_cast<double>(problem.batch * problem.heads_q * problem.seq_q) *
                        static_cast<double>(problem.seq_k);  // so many are added up at most
    keep(judge_option(id, problem, out, e, p, scores / (1 - static_cast<double>(problem.dropout))));
  };
  if (problem.forward) {
    tensor(TensorId::o, results.o, exact.o, plain.o);
    tensor(TensorId::lse, results.lse, exact.lse, plain.lse);
  }
  if (problem.backward) {
    tensor(TensorId::grad_q, results.grad_q, exact.grad_q, plain.grad_q);
    tensor(TensorId::grad_k, results.grad_k, exact.grad_k, plain.grad_k);
    tensor(TensorId::grad_v, results.grad_v, exact.grad_v, plain.grad_v);
    option(OptionId::grad_bias, results.grad_bias, exact.grad_bias, plain.grad_bias);
    option(OptionId::grad_sink, results.grad_sink, exact.grad_sink, plain.grad_sink);
  }
  return failures;
}

void run(const Case& c, const Device& device, Report* report) {
  crossflash_problem problem = c.problem;
  apply_layout(c, &problem);
  if (const auto refused = refusal(device, problem)) {
    report->reason = refused->text();
    // Only a valid request can be unsupported; anything else is a bad case line.
    if (refused->code() == CROSSFLASH_UNSUPPORTED) report->verdict = Verdict::unsupported;
    return;
  }
  Execution execution;
  const Status status = make_execution(c, &execution);
  if (!status.ok()) {
    report->reason = status.text();
    return;
  }
  const Results results = execute(device, execution);
  report->describe = results.describe;
  report->workspace = results.workspace;
  report->reason = judge(execution, results, &report->tensors);
  if (report->reason.empty()) report->verdict = Verdict::passed;
}

}  // namespace

Report run_case(const Case& c, const Device& device) {
  Report report;
  try {
    run(c, device, &report);
  } catch (const std::exception& e) {
    report.verdict = Verdict::failed;
    report.reason = e.what();
  }
  if (report.verdict != Verdict::passed)
    report.reason = fmt::format("{}\n  case: {}", report.reason, format_case(c));
  return report;
}

}  // namespace crossflash::conformance
