// SPDX-License-Identifier: MIT
// unfused.cpp: which backend has an unfused computation.
#include "bench/unfused.h"

#include <string_view>

namespace crossflash::bench {
namespace {

struct Row {
  std::string_view backend;
  std::unique_ptr<Unfused> (*make)(const Device&, const Problem&, const reference::Inputs&);
};
constexpr Row kRows[] = {
    {"cpu", make_unfused_cpu},
#ifdef CROSSFLASH_BENCH_VULKAN
    {"vulkan", make_unfused_vulkan},
#endif
};

}  // namespace

std::unique_ptr<Unfused> make_unfused(const Device& device, const Problem& problem,
                                      const reference::Inputs& inputs) {
  if (!refuse_options(problem, "the unfused computation").ok()) return nullptr;
  const crossflash_device_info info = device.info();
  for (const Row& row : kRows)
    if (row.backend == info.backend) return row.make(device, problem, inputs);
  return nullptr;
}

}  // namespace crossflash::bench
