// SPDX-License-Identifier: MIT
// progress.cpp: see progress.h.
#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace crossflash::tool {
namespace {

constexpr std::chrono::seconds kLogInterval{5};
constexpr const char* kClearLine = "\r\033[K";
constexpr std::size_t kLineWidth = 96;

}  // namespace

Progress::Progress(std::size_t total)
    : total_(total),
      terminal_(isatty(STDERR_FILENO) != 0),
      last_(std::chrono::steady_clock::now()) {}

void Progress::clear() {
  if (!terminal_ || done_ == 0) return;
  std::fputs(kClearLine, stderr);
  std::fflush(stderr);
}

void Progress::step(const std::string& what) {
  ++done_;
  const std::string line = fmt::format("[{}/{}] {}", done_, total_, what).substr(0, kLineWidth);
  if (terminal_) {
    fmt::print(stderr, "{}{}", kClearLine, line);
    std::fflush(stderr);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kLogInterval) return;
  last_ = now;
  fmt::print(stderr, "{}\n", line);
}

}  // namespace crossflash::tool
