// SPDX-License-Identifier: MIT
#include "hip/caps.h"

#include <charconv>

namespace crossflash::hip {
namespace {

// 90 of "sm_90"; 0 of what is no NVIDIA architecture.
int nvidia_number(const std::string& architecture) {
  int number = 0;
  if (architecture.starts_with("sm_"))
    std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), number);
  return number;
}

}  // namespace

bool runs_on(const std::string& compiled, const std::string& device) {
  if (compiled == device) return true;
  const int least = nvidia_number(compiled);
  return least > 0 && least <= nvidia_number(device);
}

}  // namespace crossflash::hip
