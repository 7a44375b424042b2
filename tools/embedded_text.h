// SPDX-License-Identifier: MIT
// embedded_text.h: text files that the build puts into the program (see CMakeLists.txt).
#pragma once

namespace crossflash::tool {

extern const char* const kSmokeCases;    // tests/conformance/cases/smoke.txt
extern const char* const kDefaultSuite;  // bench/suites/default.txt

}  // namespace crossflash::tool
