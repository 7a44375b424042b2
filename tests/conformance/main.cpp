// SPDX-License-Identifier: MIT
// main.cpp: the conformance program: one GoogleTest for each case line, scenario and random case,
// on each kernel variant of one device. The exit code is the verdict: a run that exercised no
// kernel fails, and so does what every variant of the device refuses, but for an option by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/conformance.h"
#include "tests/conformance/scenarios.h"
#include "tests/conformance/subject.h"

namespace crossflash::conformance {
namespace {

struct Counts {
  int exercised = 0, skipped = 0, options = 0, refusals = 0;
};

// What a test shares with the others.
struct Context {
  const Subjects& subjects;
  bool all_options;  // none may be refused
  Counts counts;
};

class FunctionTest : public testing::Test {
 public:
  explicit FunctionTest(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override {
    try {
      body_();
    } catch (const std::exception& e) {
      FAIL() << e.what();
    }
  }

 private:
  std::function<void()> body_;
};

// `text` is shown beside the name of a test; `file` and `line` say where it was written.
struct Origin {
  std::string suite, name, text, file;
  int line = 0;
};

void add_test(const Origin& origin, const Subject& subject, std::function<void()> body) {
  const std::string name =
      subject.variant.empty() ? origin.name : fmt::format("{}/{}", origin.name, subject.variant);
  testing::RegisterTest(
      origin.suite.c_str(), name.c_str(), nullptr, origin.text.c_str(), origin.file.c_str(),
      origin.line, [body = std::move(body)]() -> testing::Test* { return new FunctionTest(body); });
}

// Whether it is an option of the problem that is refused, by name.
bool names_an_option(const crossflash_problem& p, const std::string& reason) {
  const std::pair<const char*, bool> options[] = {
      {"softcap", p.softcap > 0},
      {"alibi", p.alibi != 0},
      {"sink", p.sink != CROSSFLASH_ABSENT},
      {"bias", p.bias != CROSSFLASH_ABSENT},
      {"mask", p.mask != 0},
      {"rows_q", p.rows_q != CROSSFLASH_ROWS_ALL},
      {"rows_k", p.rows_k != CROSSFLASH_ROWS_ALL},
      {"page_size", p.page_size > 0},
      {"random_on_device", p.random_on_device != 0},
      {"CROSSFLASH_APPEND", (p.passes & CROSSFLASH_APPEND) != 0}};
  return std::any_of(std::begin(options), std::end(options), [&](const auto& option) {
    return option.second && reason.find(option.first) != std::string::npos;
  });
}

// Whether the device lacks an option, and some variant says so; others may refuse the problem for a
// limit that comes first.
bool lacks_an_option(const Subjects& subjects, const crossflash_problem& problem) {
  return std::any_of(subjects.all().begin(), subjects.all().end(), [&](const auto& subject) {
    const auto refused = refusal(subject->device, problem);
    return refused && names_an_option(problem, refused->text());
  });
}

// What one variant refuses another must do, unless it is an option that the device lacks.
void skip_or_fail(Context& context, const crossflash_problem& problem, const std::string& reason) {
  if (context.subjects.any_supports(problem)) {
    ++context.counts.skipped;
  } else if (!context.all_options && lacks_an_option(context.subjects, problem)) {
    ++context.counts.options;
  } else {
    FAIL() << "no variant of the device can do this: " << reason;
  }
  GTEST_SKIP() << reason;
}

std::string describe(const Report& report) {
  std::string text = report.describe;
  for (const TensorReport& t : report.tensors)
    text += fmt::format("\n  {}: error {:.3g}, of the plain computation {:.3g}, allowed {:.3g}",
                        t.name, t.error, t.plain_error, t.tolerance);
  return text;
}

void run_case_test(Context& context, const Subject& subject, const Case& c) {
  const Report report = run_case(c, subject.device);
  if (report.verdict == Verdict::unsupported) {
    crossflash_problem problem = c.problem;
    apply_layout(c, &problem);
    return skip_or_fail(context, problem, report.reason);
  }
  ++context.counts.exercised;
  EXPECT_TRUE(report.verdict == Verdict::passed) << report.reason << "\n  " << describe(report);
}

void run_scenario(Context& context, const Subject& subject, const Scenario& scenario,
                  int Counts::*tally) {
  try {
    scenario.run(subject.device);
    ++(context.counts.*tally);
  } catch (const Refused& refused) {
    skip_or_fail(context, refused.problem(), refused.what());
  }
}

// "unsupported softcap: softcap=30 seq=8": the code, a word of the sentence, the case.
struct Refusal {
  crossflash_status status = CROSSFLASH_OK;
  std::string field;
  Case problem;
};

Refusal parse_refusal(const std::string& line) {
  const auto space = line.find(' '), colon = line.find(':');
  if (space == std::string::npos || colon == std::string::npos || colon < space)
    throw std::runtime_error("a refusal is written as \"STATUS FIELD: CASE\"");
  Refusal r;
  const std::string status = line.substr(0, space);
  for (const crossflash_status s : {CROSSFLASH_INVALID, CROSSFLASH_UNSUPPORTED})
    if (status == crossflash_status_name(s)) r.status = s;
  if (r.status == CROSSFLASH_OK)
    throw std::runtime_error(fmt::format("\"{}\" is no status of a refusal", status));
  r.field = line.substr(space + 1, colon - space - 1);
  const Status parsed = parse_case(line.substr(colon + 1), &r.problem);
  if (!parsed.ok()) throw std::runtime_error(parsed.text());
  return r;
}

void run_refusal(Context& context, const Subject& subject, const Refusal& expected) {
  ++context.counts.refusals;
  crossflash_problem problem = expected.problem.problem;
  apply_layout(expected.problem, &problem);
  const auto refused = refusal(subject.device, problem);
  ASSERT_TRUE(refused.has_value()) << "accepted";
  EXPECT_EQ(refused->code(), expected.status) << refused->text();
  EXPECT_NE(refused->text().find(expected.field), std::string::npos)
      << "\"" << refused->text() << "\" does not name " << expected.field;
}

// Every line of the file, for every variant. A file named refusals holds what must be refused.
void add_file(Context& context, const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("{} cannot be read", path.string()));
  Origin origin{path.stem().string(), "", "", path.string(), 0};
  for (std::string line; std::getline(file, line);) {
    ++origin.line;
    origin.text = std::string(case_text(line));
    if (origin.text.empty()) continue;
    origin.name = fmt::format("line_{}", origin.line);
    std::function<void(const Subject&)> body;
    try {
      if (origin.suite == "refusals") {
        body = [&context, r = parse_refusal(origin.text)](const Subject& s) {
          run_refusal(context, s, r);
        };
      } else {
        body = [&context, c = case_of(origin.text)](const Subject& s) {
          run_case_test(context, s, c);
        };
      }
    } catch (const std::exception& e) {
      throw std::runtime_error(fmt::format("{}:{}: {}", path.string(), origin.line, e.what()));
    }
    for (const auto& subject : context.subjects.all())
      add_test(origin, *subject, [body, &s = *subject] { body(s); });
  }
}

void add_scenarios(Context& context, const char* suite, std::span<const Scenario> scenarios,
                   int Counts::*tally = &Counts::exercised) {
  for (const Scenario& scenario : scenarios)
    for (const auto& subject : context.subjects.all())
      add_test({suite, scenario.name, "", __FILE__, __LINE__}, *subject,
               [&context, &scenario, &s = *subject, tally] {
                 run_scenario(context, s, scenario, tally);
               });
}

void add_pairs(Context& context) {
  for (const NamedCase& pair : pair_cases())
    for (const auto& subject : context.subjects.all())
      add_test({"pair", pair.name, format_case(pair.problem), __FILE__, __LINE__}, *subject,
               [&context, c = pair.problem, &s = *subject] { run_case_test(context, s, c); });
}

void add_random(Context& context, int count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int n = 0; n < count; ++n) {
    const Case c = random_case(random);
    for (const auto& subject : context.subjects.all())
      add_test(
          {"random", fmt::format("seed_{}_case_{}", seed, n), format_case(c), __FILE__, __LINE__},
          *subject, [&context, c, &s = *subject] { run_case_test(context, s, c); });
  }
}

int run_all(const std::string& backend, const std::vector<std::string>& files, bool scenarios,
            bool all_options, int random_count, std::uint64_t seed) {
  const Subjects subjects(backend);
  Context context{subjects, all_options, {}};
  for (const std::string& file : files) add_file(context, file);
  if (scenarios) {
    add_pairs(context);
    add_scenarios(context, "equality", equality_scenarios());
    add_scenarios(context, "equality", option_scenarios());
    add_scenarios(context, "sharing", sharing_scenarios());
    add_scenarios(context, "value", value_scenarios());
    add_scenarios(context, "append", append_scenarios());
    add_scenarios(context, "refusal", refusal_scenarios(), &Counts::refusals);
  }
  add_random(context, random_count, seed);

  const int failed = RUN_ALL_TESTS();
  if (GTEST_FLAG_GET(list_tests)) return failed;
  const Counts& n = context.counts;
  fmt::print("{}: {} tests ran kernels, {} expected refusals, {} skipped, {} options refused\n",
             subjects.name(), n.exercised, n.refusals, n.skipped, n.options);
  if (n.exercised == 0) {
    fmt::print(stderr, "no test ran a kernel; that is a failure\n");
    return EXIT_FAILURE;
  }
  return failed;
}

}  // namespace
}  // namespace crossflash::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  CLI::App app("Runs the conformance suite of crossflash on one device.");
  std::string backend;
  std::vector<std::string> files;
  bool no_scenarios = false, all_options = false;
  int random_count = 0;
  std::uint64_t seed = 1;
  app.add_option("--backend", backend,
                 "the device, as in vulkan:1; default: CROSSFLASH_BACKEND, else the best");
  app.add_option("files", files,
                 "files of case lines; one named refusals.txt: what must be refused");
  app.add_flag("--no-scenarios", no_scenarios, "only the files and the random cases");
  app.add_flag("--all-options", all_options, "an option that the device refuses is a failure");
  app.add_option("--random", random_count, "so many random cases");
  app.add_option("--seed", seed, "of the random cases");
  CLI11_PARSE(app, argc, argv);
  try {
    return crossflash::conformance::run_all(backend, files, !no_scenarios, all_options,
                                            random_count, seed);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return EXIT_FAILURE;
  }
}
