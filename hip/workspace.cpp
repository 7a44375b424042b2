// SPDX-License-Identifier: MIT
#include "hip/workspace.h"

namespace crossflash::hip {

Workspace::~Workspace() {
  if (done_ != nullptr) static_cast<void>(hipEventDestroy(done_));
}

Status Workspace::create(std::uint64_t bytes) {
  CROSSFLASH_TRY(Memory::create(bytes, &memory_));
  return check(hipEventCreateWithFlags(&done_, hipEventDisableTiming), "hipEventCreateWithFlags");
}

}  // namespace crossflash::hip
