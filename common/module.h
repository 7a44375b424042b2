// SPDX-License-Identifier: MIT
// module.h: a backend in a shared object of its own, opened when first asked for, so that a program
// starts where what the backend needs (a GPU vendor's runtime) is not installed, and is told so.
// A module exports one ModuleEntry named crossflash_module; it shares no symbol with the library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/backend.h"

namespace crossflash {

struct ModuleEntry {
  std::uint64_t interface;  // module_interface() where the module was compiled
  Backend* (*backend)();
};
constexpr const char* kModuleSymbol = "crossflash_module";

// Differs if the library and the module do not agree on what they hand each other.
constexpr std::uint64_t module_interface() {
  std::uint64_t mixed = CROSSFLASH_VERSION_MAJOR;
  for (const std::uint64_t part :
       {std::uint64_t{CROSSFLASH_VERSION_MINOR}, std::uint64_t{CROSSFLASH_VERSION_PATCH},
        std::uint64_t{sizeof(Problem)}, std::uint64_t{sizeof(RunArgs)},
        std::uint64_t{sizeof(DeviceInfo)}, std::uint64_t{sizeof(DeviceOptions)}})
    mixed = mixed * 1000003 + part;
  return mixed;
}

// The backend `name` in the file lib<library>_<name>.so, looked for in the folders of
// CROSSFLASH_MODULE_PATH (colons between them), beside the library and beside the program. Without
// it the backend has one device, which is not usable and says why.
std::unique_ptr<Backend> make_module_backend(std::string name);

}  // namespace crossflash
