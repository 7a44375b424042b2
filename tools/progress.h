// SPDX-License-Identifier: MIT
// progress.h: says on stderr how far long work is: one changing line on a terminal, else a line
// every few seconds, so that a log shows life without growing.
#pragma once

#include <chrono>
#include <string>

namespace crossflash::tool {

class Progress {
 public:
  explicit Progress(std::size_t total);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Begins the next of `total` steps.
  void step(const std::string& what);
  // Takes the line away, so that results can follow.
  void clear();

 private:
  std::size_t total_, done_ = 0;
  bool terminal_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace crossflash::tool
