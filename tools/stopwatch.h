// SPDX-License-Identifier: MIT
// stopwatch.h: wall-clock times of calls that enqueue work and wait for it, taken by Google
// Benchmark: each is warmed up, run until the clock is trusted, and the median of the repetitions
// counts.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace crossflash::tool {

struct Timed {
  std::string name;
  std::function<void()> call;
  double seconds = 0;  // of one call, once timed
};

struct Effort {
  int repetitions = 5;
  double min_seconds = 0.05;  // of one repetition
};

// Throws the first call's exception that is met, as Failure.
void time_all(std::vector<Timed>& calls, const Effort& effort);

}  // namespace crossflash::tool
