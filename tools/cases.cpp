// SPDX-License-Identifier: MIT
// cases.cpp: see cases.h.
#include "tools/cases.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "common/problem.h"
#include "tests/conformance/memory.h"
#include "tools/exit_code.h"

namespace crossflash::tool {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) throw bad_input("{}: cannot be read, or is empty", path);
  return text.str();
}

// A contradiction is the user's, not a device's.
void check_consistent(const Case& c) {
  crossflash_problem problem = c.problem;
  conformance::apply_layout(c, &problem);
  Problem checked;
  const Status status = check_problem(problem, &checked);
  if (status.code() == CROSSFLASH_INVALID)
    throw bad_input("case \"{}\": {}", format_case(c), status.text());
}

}  // namespace

void add_case_options(CLI::App& app, CaseChoice* choice) {
  CLI::Option* lines = app.add_option(
      "case", choice->lines, "Case lines, each quoted, as in \"seq=33x65 heads=8/2 d=64\"");
  app.add_option("--file", choice->file, "File of case lines")->type_name("FILE")->excludes(lines);
}

std::vector<Case> chosen_cases(const CaseChoice& choice, const char* fallback) {
  std::vector<Case> cases;
  if (!choice.lines.empty()) {
    for (const std::string& line : choice.lines) {
      const Status status = parse_case(line, &cases.emplace_back());
      if (!status.ok()) throw bad_input("case \"{}\": {}", line, status.text());
    }
  } else {
    const bool file = !choice.file.empty();
    const Status status = parse_cases(file ? read_text(choice.file) : fallback, &cases);
    if (!status.ok()) throw bad_input("{}: {}", file ? choice.file : "built-in", status.text());
    if (cases.empty()) throw bad_input("{}: holds no case line", choice.file);
  }
  for (const Case& c : cases) check_consistent(c);
  return cases;
}

}  // namespace crossflash::tool
