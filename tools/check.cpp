// SPDX-License-Identifier: MIT
// check.cpp: `crossflash check`: the conformance suite's cases on this machine's devices. A failure
// is printed as the command that repeats it.
#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/conformance/conformance.h"
#include "tools/cases.h"
#include "tools/commands.h"
#include "tools/device_choice.h"
#include "tools/embedded_text.h"
#include "tools/progress.h"
#include "tools/table.h"

namespace crossflash::tool {
namespace {

using conformance::Verdict;

struct Options {
  CaseChoice cases;
  std::size_t random = 0;
  std::uint64_t seed = 1;
  std::string part = "1/1";
  DeviceChoice device;
  bool json = false;
};

struct Failed {
  std::string command, reason;
};

struct Tally {
  std::string device, name;
  std::size_t passed = 0, failed = 0;
  std::map<std::string, std::size_t> unsupported;  // by reason

  std::size_t unsupported_count() const {
    std::size_t count = 0;
    for (const auto& [reason, times] : unsupported) count += times;
    return count;
  }
};

std::vector<Case> random_cases(const Options& o) {
  std::mt19937_64 random(o.seed);
  std::vector<Case> cases;
  for (std::size_t n = 0; n < o.random; ++n) cases.push_back(conformance::random_case(random));
  return cases;
}

// Part I of N: the I-th of N stretches, so that several processes share the work.
std::vector<Case> part_of(const std::vector<Case>& cases, const std::string& part) {
  std::size_t which = 0, parts = 0;
  char rest = 0;
  if (std::sscanf(part.c_str(), "%zu/%zu%c", &which, &parts, &rest) != 2 || which == 0 ||
      which > parts)
    throw bad_input("--part is {}; it must be I/N with I from 1 to N", part);
  const auto edge = [&](std::size_t n) {
    return cases.begin() + static_cast<std::ptrdiff_t>(cases.size() * n / parts);
  };
  const std::vector<Case> chosen(edge(which - 1), edge(which));
  if (chosen.empty()) throw bad_input("--part {} of {} cases is none", part, cases.size());
  return chosen;
}

std::string command(const Options& o, const Candidate& device, const Case& c) {
  std::string text = "crossflash check --backend " + device.selector;
  if (!o.device.variant.empty()) text += " --variant " + o.device.variant;
  if (!o.device.limits.empty()) text += " --limits " + o.device.limits;
  return fmt::format("{} \"{}\"", text, format_case(c));
}

// A report ends in the case line, which is said otherwise here; it may name several tensors.
std::string reason(const conformance::Report& report) {
  std::string text = report.reason.substr(0, report.reason.find("\n  case: "));
  for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
    text.replace(at, 1, "\n  ");
  return text;
}

Tally check_device(const Options& o, const std::vector<Case>& cases, const Candidate& device,
                   Progress& progress, std::vector<Failed>* failures) {
  Tally tally{device.selector, device.name, 0, 0, {}};
  for (const Case& c : cases) {
    progress.step(fmt::format("{} {}", device.selector, format_case(c)));
    const conformance::Report report = conformance::run_case(c, *device.device);
    switch (report.verdict) {
      case Verdict::passed:
        ++tally.passed;
        break;
      case Verdict::unsupported:
        ++tally.unsupported[reason(report)];
        break;
      case Verdict::failed:
        ++tally.failed;
        failures->push_back({command(o, device, c), reason(report)});
        break;
    }
  }
  return tally;
}

void print_text(const std::vector<Tally>& tallies, const std::vector<Failed>& failures,
                const std::vector<Candidate>& devices) {
  for (const Failed& f : failures) fmt::print("{}\n  {}\n", f.command, f.reason);
  Table table({{"device"},
               {"name", Table::Align::left, 40},
               {"passed", Table::Align::right},
               {"failed", Table::Align::right},
               {"unsupported", Table::Align::right}});
  for (const Tally& t : tallies)
    table.add_row({t.device, t.name, fmt::to_string(t.passed), fmt::to_string(t.failed),
                   fmt::to_string(t.unsupported_count())});
  fmt::print("{}", table.text());
  for (const Tally& t : tallies)
    for (const auto& [why, times] : t.unsupported)
      fmt::print("{}: {} unsupported: {}\n", t.device, times, why);
  for (const Candidate& d : devices)
    if (!d.device) fmt::print("{}: not used: {}\n", d.selector, d.reason);
}

void print_as_json(const std::vector<Tally>& tallies, const std::vector<Failed>& failures,
                   const std::vector<Candidate>& devices) {
  nlohmann::json json = {{"devices", nlohmann::json::array()},
                         {"failures", nlohmann::json::array()},
                         {"not_used", nlohmann::json::array()}};
  for (const Tally& t : tallies)
    json["devices"].push_back({{"device", t.device},
                               {"name", t.name},
                               {"passed", t.passed},
                               {"failed", t.failed},
                               {"unsupported", t.unsupported}});
  for (const Failed& f : failures)
    json["failures"].push_back({{"command", f.command}, {"reason", f.reason}});
  for (const Candidate& d : devices)
    if (!d.device) json["not_used"].push_back({{"device", d.selector}, {"reason", d.reason}});
  print_json(json);
}

ExitCode check(const Options& o) {
  const std::vector<Case> cases =
      part_of(o.random > 0 ? random_cases(o) : chosen_cases(o.cases, kSmokeCases), o.part);
  const std::vector<Candidate> devices = open_devices(o.device);
  const auto usable = static_cast<std::size_t>(std::count_if(
      devices.begin(), devices.end(), [](const Candidate& d) { return d.device != nullptr; }));
  if (usable == 0) throw Failure(no_device_code(devices), why_none(devices));

  Progress progress(usable * cases.size());
  std::vector<Tally> tallies;
  std::vector<Failed> failures;
  for (const Candidate& device : devices)
    if (device.device) tallies.push_back(check_device(o, cases, device, progress, &failures));
  progress.clear();
  o.json ? print_as_json(tallies, failures, devices) : print_text(tallies, failures, devices);
  if (!failures.empty()) return ExitCode::wrong;
  const bool any =
      std::any_of(tallies.begin(), tallies.end(), [](const Tally& t) { return t.passed > 0; });
  if (!any)
    throw Failure(ExitCode::unsupported, "nothing was exercised: every case is unsupported here");
  return ExitCode::right;
}

}  // namespace

Command check_command(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("check", "Run conformance cases on this machine's devices");
  auto o = std::make_shared<Options>();
  add_case_options(*app, &o->cases);
  CLI::Option* random = app->add_option("--random", o->random, "This many random cases instead")
                            ->type_name("N")
                            ->check(CLI::Range(std::size_t{1}, std::size_t{1000000}));
  app->add_option("--seed", o->seed, "Seed of the random cases")->needs(random);
  for (CLI::Option* other : app->get_options([](const CLI::Option* option) {
         return option->check_name("--file") || option->check_name("case");
       }))
    random->excludes(other);
  app->add_option("--part", o->part, "The I-th of N stretches of the cases")->type_name("I/N");
  add_device_options(*app, &o->device);
  app->add_flag("--json", o->json, "Print JSON");
  return {app, [o] { return check(*o); }};
}

}  // namespace crossflash::tool
