// SPDX-License-Identifier: MIT
// stopwatch.cpp: see stopwatch.h.
#include "tools/stopwatch.h"

#include <benchmark/benchmark.h>

#include <array>
#include <chrono>

#include "tools/exit_code.h"

namespace crossflash::tool {
namespace {

void run(benchmark::State& state, const std::function<void()>& call) {
  try {
    call();  // warm: pages, pools, pipelines
    for ([[maybe_unused]] const auto step : state) {
      const auto begin = std::chrono::steady_clock::now();
      call();
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      state.SetIterationTime(elapsed.count());
    }
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

// Keeps the medians instead of printing.
class Medians final : public benchmark::BenchmarkReporter {
 public:
  explicit Medians(std::vector<Timed>& calls) : calls_(calls) {}
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred && error.empty()) error = run.error_message;
      if (run.aggregate_name != "median" && run.repetitions > 1) continue;  // one has no median
      for (Timed& timed : calls_)
        if (timed.name == run.run_name.function_name) timed.seconds = run.GetAdjustedRealTime();
    }
  }

  std::string error;

 private:
  std::vector<Timed>& calls_;
};

}  // namespace

void time_all(std::vector<Timed>& calls, const Effort& effort) {
  benchmark::ClearRegisteredBenchmarks();
  // Repetitions of the calls take turns, so that what else the machine does meets all of them alike.
  std::array<char, 64> interleave = {"--benchmark_enable_random_interleaving=true"};
  std::array<char*, 2> arguments = {interleave.data(), interleave.data()};
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  for (const Timed& timed : calls)
    benchmark::RegisterBenchmark(timed.name.c_str(),
                                 [&timed](benchmark::State& state) { run(state, timed.call); })
        ->UseManualTime()
        ->Unit(benchmark::kSecond)
        ->MinTime(effort.min_seconds)
        ->Repetitions(effort.repetitions);
  Medians medians(calls);
  benchmark::RunSpecifiedBenchmarks(&medians);
  if (!medians.error.empty()) throw Failure(ExitCode::unsupported, medians.error);
}

}  // namespace crossflash::tool
