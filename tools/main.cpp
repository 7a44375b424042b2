// SPDX-License-Identifier: MIT
// main.cpp: the program crossflash: parses the line, runs one subcommand, turns whatever went wrong
// into one sentence on stderr and an exit code (exit_code.h).
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "crossflash/crossflash.hpp"
#include "tools/commands.h"

namespace crossflash::tool {
namespace {

ExitCode fail(ExitCode code, const char* text) {
  fmt::print(stderr, "crossflash: {}\n", text);
  return code;
}

ExitCode parse_and_run(int argc, char** argv) {
  CLI::App program("Exact attention, forward and backward, on any GPU.", "crossflash");
  program.set_version_flag("--version",
                           fmt::format("crossflash {}.{}.{}", CROSSFLASH_VERSION_MAJOR,
                                       CROSSFLASH_VERSION_MINOR, CROSSFLASH_VERSION_PATCH));
  program.require_subcommand(1);
  program.footer(
      "Exit codes: 0 right, 1 wrong results, 2 bad usage or input, 3 unsupported, no device or a "
      "device error.");
  const Command commands[] = {devices_command(program), run_command(program),
                              check_command(program), demo_command(program),
                              bench_command(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return fail(ExitCode::bad_input, error.what());
    program.exit(error);  // prints the help or the version that was asked for
    return ExitCode::right;
  }
  for (const Command& command : commands)
    if (command.app->parsed()) return command.run();
  return ExitCode::bad_input;
}

ExitCode guarded(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const Failure& failure) {
    return fail(failure.code(), failure.what());
  } catch (const Error& error) {
    return fail(exit_code(error.status()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::unsupported, "host memory ran out");
  } catch (const std::length_error&) {
    return fail(ExitCode::unsupported, "host memory ran out");
  } catch (const std::exception& error) {
    return fail(ExitCode::unsupported, error.what());
  }
}

}  // namespace
}  // namespace crossflash::tool

int main(int argc, char** argv) {
  using namespace crossflash::tool;
  // A file size limit shall fail a write, which is reported and cleaned up, not end the program.
  std::signal(SIGXFSZ, SIG_IGN);
  ExitCode code = guarded(argc, argv);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "crossflash: the results could not be written to standard output\n");
    if (code == ExitCode::right) code = ExitCode::bad_input;
  }
  return static_cast<int>(code);
}
