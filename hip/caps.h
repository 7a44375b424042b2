// SPDX-License-Identifier: MIT
// caps.h: what planning knows of a GPU, as plain data, so that plans for GPUs that are not here are
// made by inventing one; and the question which of the compiled architectures serves it.
#pragma once

#include <cstdint>
#include <string>

namespace crossflash::hip {

struct Caps {
  std::string architecture;        // "gfx942", "sm_90"
  int shared_bytes = 0;            // shared memory (LDS) that one block may ask for
  int threads = 0;                 // of a block
  std::int64_t blocks = 0;         // of a launch along x
  std::int64_t total_threads = 0;  // of a launch
};

// Whether code compiled for `gpus` runs on `device`. `gpus` is a list as CMake takes it,
// "gfx90a;gfx942" or "80;90a-real": NVIDIA's machine code runs on what is not older and of the same
// major number, its intermediate code (without "-real") on all that is not older; with an "a"
// either on that number alone.
bool runs_on(const std::string& gpus, const std::string& device);

}  // namespace crossflash::hip
