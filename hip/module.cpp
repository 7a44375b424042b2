// SPDX-License-Identifier: MIT
// module.cpp: the part of the HIP backend that is in the library: it opens the rest, a module that
// links to the vendor's runtime, when a program asks for devices.
#include "common/module.h"

namespace crossflash {

Backend* hip_backend() {
  static const std::unique_ptr<Backend> backend = make_module_backend("hip");
  return backend.get();
}

}  // namespace crossflash
