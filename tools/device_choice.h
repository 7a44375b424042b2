// SPDX-License-Identifier: MIT
// device_choice.h: the options --backend, --variant and --limits, and the devices they mean.
// Without --backend (or CROSSFLASH_BACKEND) a command that looks at the whole machine takes every
// device there is; those it cannot open stay in the list with the reason.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "crossflash/crossflash.hpp"
#include "tools/exit_code.h"

namespace crossflash::tool {

struct DeviceChoice {
  std::string backend, variant, limits;
};

void add_device_options(CLI::App& app, DeviceChoice* choice);

struct Candidate {
  std::string selector;            // "cpu:0", as --backend takes it
  std::string name;                // the device's own
  std::unique_ptr<Device> device;  // null: not usable, for
  crossflash_status status = CROSSFLASH_OK;
  std::string reason;
};

std::vector<Candidate> open_devices(const DeviceChoice& choice);

std::string selector(const crossflash_device_info& info);

// The exit code if none of them is usable: of the one that was asked for, what its status says.
ExitCode no_device_code(const std::vector<Candidate>& candidates);
// "no usable device: vulkan:0: ...; cpu:0: ..."
std::string why_none(const std::vector<Candidate>& candidates);

}  // namespace crossflash::tool
