// SPDX-License-Identifier: MIT
// cases.h: case lines from the command line or a file, or a list that the program carries.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/case_line.h"

namespace crossflash::tool {

struct CaseChoice {
  std::vector<std::string> lines;
  std::string file;
};

// Adds the positional `case` and --file, of which only one may be given.
void add_case_options(CLI::App& app, CaseChoice* choice);

// What was chosen, or `fallback`'s cases. Fails on a line that cannot be read, on a case that
// contradicts itself, and if there is no case at all.
std::vector<Case> chosen_cases(const CaseChoice& choice, const char* fallback);

}  // namespace crossflash::tool
