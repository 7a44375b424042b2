// SPDX-License-Identifier: MIT
// commands.h: the subcommands. Each adds itself to the command line and returns what runs it once
// the line is parsed. A command writes results to stdout and everything else to stderr.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/exit_code.h"

namespace crossflash::tool {

struct Command {
  CLI::App* app;
  std::function<ExitCode()> run;
};

Command devices_command(CLI::App& program);
Command run_command(CLI::App& program);
Command check_command(CLI::App& program);
Command demo_command(CLI::App& program);
Command bench_command(CLI::App& program);

}  // namespace crossflash::tool
