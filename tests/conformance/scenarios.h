// SPDX-License-Identifier: MIT
// scenarios.h: what one case line cannot say: several runs that must agree, designed values, wrong
// arguments. Each is a row that runs on every variant of the device under test; expectations are
// GoogleTest's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/case_line.h"
#include "crossflash/crossflash.hpp"

namespace crossflash::conformance {

struct Scenario {
  const char* name;
  void (*run)(const Device& device);
};

std::span<const Scenario> equality_scenarios();  // runs that must agree to the bit
std::span<const Scenario> option_scenarios();    // the same, of options
std::span<const Scenario> sharing_scenarios();   // plans and threads that share a device
std::span<const Scenario> value_scenarios();     // designed values with a known answer
std::span<const Scenario> append_scenarios();    // caches that grow, and what is rotated
std::span<const Scenario> refusal_scenarios();   // requests nobody may run

// Every pair of options that may meet, each a case of its own.
struct NamedCase {
  std::string name;
  Case problem;
};
std::vector<NamedCase> pair_cases();

}  // namespace crossflash::conformance
