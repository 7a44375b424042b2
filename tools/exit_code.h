// SPDX-License-Identifier: MIT
// exit_code.h: what the program answers to its caller, and the exception that carries it to main.
// A Failure's text is one sentence that names the file or option and what is wrong with it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "crossflash/crossflash.h"

namespace crossflash::tool {

enum class ExitCode {
  right = 0,
  wrong = 1,        // a result outside its tolerance
  bad_input = 2,    // usage, files, contradicting options
  unsupported = 3,  // nobody here can do it: no device, a refused problem, a device that failed
};

class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

template <typename... Args>
Failure bad_input(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::bad_input, fmt::format(format, std::forward<Args>(args)...)};
}

// A device error is no verdict about results: it counts as "cannot be done here".
inline ExitCode exit_code(crossflash_status status) {
  return status == CROSSFLASH_OK        ? ExitCode::right
         : status == CROSSFLASH_INVALID ? ExitCode::bad_input
                                        : ExitCode::unsupported;
}

}  // namespace crossflash::tool
