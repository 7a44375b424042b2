// SPDX-License-Identifier: MIT
#include "hip/caps.h"

#include <charconv>
#include <string_view>

namespace crossflash::hip {
namespace {

// One entry of the list, on an NVIDIA device whose number (90 of "sm_90") is `device`.
bool nvidia_runs_on(std::string_view gpu, int device) {
  int number = 0;
  const auto [end, error] = std::from_chars(gpu.data(), gpu.data() + gpu.size(), number);
  if (error != std::errc{} || number > device) return false;
  const std::string_view kind = gpu.substr(static_cast<std::size_t>(end - gpu.data()));
  if (kind.starts_with('a')) return number == device;
  if (kind.starts_with('f') || kind.ends_with("-real")) return number / 10 == device / 10;
  return true;
}

}  // namespace

bool runs_on(const std::string& gpus, const std::string& device) {
  int number = 0;
  if (device.starts_with("sm_"))
    std::from_chars(device.data() + 3, device.data() + device.size(), number);
  for (std::string_view rest = gpus; !rest.empty();) {
    const std::string_view gpu = rest.substr(0, rest.find(';'));
    if (gpu == device || (number > 0 && nvidia_runs_on(gpu, number))) return true;
    rest.remove_prefix(gpu.size() < rest.size() ? gpu.size() + 1 : gpu.size());
  }
  return false;
}

}  // namespace crossflash::hip
