// SPDX-License-Identifier: MIT
// bench.cpp: `crossflash bench`: cases are first verified by the conformance suite, then timed,
// forward and backward, beside the unfused computation on the same device (bench/unfused.h). Times
// are wall-clock: enqueue and wait.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "bench/flops.h"
#include "bench/unfused.h"
#include "tests/conformance/conformance.h"
#include "tests/conformance/fill.h"
#include "tools/cases.h"
#include "tools/commands.h"
#include "tools/device_choice.h"
#include "tools/embedded_text.h"
#include "tools/progress.h"
#include "tools/session.h"
#include "tools/stopwatch.h"
#include "tools/table.h"

namespace crossflash::tool {
namespace {

using conformance::Verdict;

struct Options {
  CaseChoice cases;
  DeviceChoice device;
  Effort effort;
  bool json = false;
};

struct PassTiming {
  std::string name;
  double flops = 0, fused_seconds = 0;
  std::optional<double> unfused_seconds;
  std::uint64_t workspace = 0;
  std::optional<std::uint64_t> unfused_workspace;
};

struct Entry {
  std::string line, describe;
  Verdict verdict = Verdict::failed;
  std::string reason;
  std::vector<PassTiming> passes;
};

// Both the fused results and these lie within the report's tolerance of the exact ones, and so
// within twice that of each other; "" or what does not.
std::string compare_unfused(const bench::Unfused& unfused, const Session& session,
                            const conformance::Report& report) {
  std::map<std::string, double> tolerances;
  for (const conformance::TensorReport& t : report.tensors) tolerances[t.name] = t.tolerance;
  for (const TensorId id : {TensorId::o, TensorId::grad_q, TensorId::grad_k, TensorId::grad_v}) {
    const char* name = kTensorNames[static_cast<std::size_t>(id)];
    if (!tolerances.contains(name)) continue;  // forward alone
    const std::vector<float> a = session.output(id), b = unfused.output(id);
    for (std::size_t n = 0; n < a.size(); ++n) {
      const double apart = std::abs(static_cast<double>(a[n]) - static_cast<double>(b[n]));
      if (!(apart <= 2 * tolerances[name]))
        return fmt::format("the unfused {} is {} where the fused one is {}", name, b[n], a[n]);
    }
  }
  return {};
}

void time_passes(const Options& o, const Device& device, const Case& c,
                 const conformance::Report& report, Entry* entry) {
  const Problem problem = checked_problem(c);
  const reference::Inputs inputs = conformance::make_inputs(c, problem);
  Session session(device, c, inputs);
  const auto unfused = bench::make_unfused(device, problem, inputs);
  session.forward();
  if (unfused) unfused->forward();
  if (problem.backward) {
    session.backward();
    if (unfused) unfused->backward();
  }
  if (unfused) {
    entry->reason = compare_unfused(*unfused, session, report);
    if (!entry->reason.empty()) {
      entry->verdict = Verdict::failed;
      return;
    }
  }

  std::vector<Timed> calls = {{"forward", [&] { session.forward(); }}};
  if (problem.backward) calls.push_back({"backward", [&] { session.backward(); }});
  const std::size_t passes = calls.size();
  if (unfused) {
    calls.push_back({"unfused forward", [&] { unfused->forward(); }});
    if (problem.backward) calls.push_back({"unfused backward", [&] { unfused->backward(); }});
  }
  time_all(calls, o.effort);
  for (std::size_t n = 0; n < passes; ++n) {
    const std::uint32_t pass = n == 0 ? CROSSFLASH_FORWARD : CROSSFLASH_BACKWARD;
    PassTiming timing{calls[n].name, 0, calls[n].seconds, {}, session.workspace(pass), {}};
    timing.flops = n == 0 ? bench::forward_flops(problem, c.problem.causal)
                          : bench::backward_flops(problem, c.problem.causal);
    if (unfused) {
      timing.unfused_seconds = calls[passes + n].seconds;
      timing.unfused_workspace = unfused->workspace_bytes(pass);
    }
    entry->passes.push_back(timing);
  }
}

Entry bench_case(const Options& o, const Device& device, const Case& c) {
  Entry entry;
  entry.line = format_case(c);
  const conformance::Report report = conformance::run_case(c, device);
  entry.verdict = report.verdict;
  entry.describe = report.describe;
  entry.reason = report.reason.substr(0, report.reason.find("\n  case: "));
  if (report.verdict == Verdict::passed) time_passes(o, device, c, report, &entry);
  return entry;
}

std::string ratio(const PassTiming& p) {
  return p.unfused_seconds ? format_figure(p.fused_seconds / *p.unfused_seconds) : "-";
}

void print_text(const Options& o, const Candidate& device, const std::vector<Entry>& entries) {
  using Align = Table::Align;
  Table table({{"pass"},
               {"fused ms", Align::right},
               {"unfused ms", Align::right},
               {"fused/unfused", Align::right},
               {"GFLOP/s", Align::right},
               {"workspace", Align::right},
               {"unfused workspace", Align::right}});
  for (const Entry& e : entries) {
    table.add_heading(e.line.empty() ? "(default case)" : e.line);
    if (e.verdict == Verdict::failed) table.add_heading("  WRONG, not timed: " + e.reason);
    if (e.verdict == Verdict::unsupported) table.add_heading("  unsupported: " + e.reason);
    for (const PassTiming& p : e.passes)
      table.add_row({"  " + p.name, format_figure(p.fused_seconds * 1e3),
                     p.unfused_seconds ? format_figure(*p.unfused_seconds * 1e3) : "-", ratio(p),
                     format_figure(p.flops / p.fused_seconds * 1e-9), format_bytes(p.workspace),
                     p.unfused_workspace ? format_bytes(*p.unfused_workspace) : "-"});
  }
  fmt::print("{} {}: wall clock, median of {}\n\n{}\n", device.selector, device.name,
             o.effort.repetitions, table.text());
}

nlohmann::json to_json(const Candidate& device, const Entry& e) {
  nlohmann::json json = {{"device", device.selector},
                         {"case", e.line},
                         {"plan", e.describe},
                         {"verdict", e.verdict == Verdict::passed   ? "passed"
                                     : e.verdict == Verdict::failed ? "failed"
                                                                    : "unsupported"},
                         {"reason", e.reason},
                         {"passes", nlohmann::json::array()}};
  for (const PassTiming& p : e.passes) {
    nlohmann::json pass = {{"pass", p.name},
                           {"fused_seconds", p.fused_seconds},
                           {"gflops", p.flops / p.fused_seconds * 1e-9},
                           {"workspace_bytes", p.workspace}};
    if (p.unfused_seconds) {
      pass["unfused_seconds"] = *p.unfused_seconds;
      pass["unfused_workspace_bytes"] = *p.unfused_workspace;
    }
    json["passes"].push_back(pass);
  }
  return json;
}

ExitCode bench(const Options& o) {
  const std::vector<Case> cases = chosen_cases(o.cases, kDefaultSuite);
  for (const Case& c : cases) {
    if ((c.problem.passes & CROSSFLASH_FORWARD) == 0)
      throw bad_input("case \"{}\": backward alone is not timed; backward follows a forward",
                      format_case(c));
  }
  const std::vector<Candidate> devices = open_devices(o.device);
  const auto usable = static_cast<std::size_t>(std::count_if(
      devices.begin(), devices.end(), [](const Candidate& d) { return d.device != nullptr; }));
  if (usable == 0) throw Failure(no_device_code(devices), why_none(devices));

  Progress progress(usable * cases.size());
  nlohmann::json json = nlohmann::json::array();
  bool wrong = false, any = false;
  for (const Candidate& device : devices) {
    if (!device.device) continue;
    std::vector<Entry> entries;
    for (const Case& c : cases) {
      progress.step(fmt::format("{} {}", device.selector, format_case(c)));
      const Entry& e = entries.emplace_back(bench_case(o, *device.device, c));
      json.push_back(to_json(device, e));
      wrong = wrong || e.verdict == Verdict::failed;
      any = any || !e.passes.empty();
    }
    progress.clear();
    if (!o.json) print_text(o, device, entries);
  }
  if (o.json) print_json({{"results", json}});
  if (wrong) return ExitCode::wrong;
  if (!any) throw Failure(ExitCode::unsupported, "nothing was timed: every case is unsupported");
  return ExitCode::right;
}

}  // namespace

Command bench_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "bench", "Verify cases, then time them beside the unfused computation on the same device");
  auto o = std::make_shared<Options>();
  add_case_options(*app, &o->cases);
  add_device_options(*app, &o->device);
  app->add_option("--repetitions", o->effort.repetitions, "Repetitions, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--min-time", o->effort.min_seconds, "Seconds that a repetition takes at least")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  app->add_flag("--json", o->json, "Print JSON");
  return {app, [o] { return bench(*o); }};
}

}  // namespace crossflash::tool
