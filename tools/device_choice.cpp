// SPDX-License-Identifier: MIT
// device_choice.cpp: see device_choice.h.
#include "tools/device_choice.h"

#include <fmt/format.h>

#include <cstdlib>

namespace crossflash::tool {
namespace {

Candidate open_candidate(const std::string& backend, const DeviceChoice& choice) {
  Candidate candidate;
  candidate.selector = backend;
  try {
    candidate.device = std::make_unique<Device>(backend, choice.variant, choice.limits);
    const crossflash_device_info info = candidate.device->info();
    candidate.selector = selector(info);
    candidate.name = info.name;
  } catch (const Error& error) {
    candidate.status = error.status();
    candidate.reason = error.what();
  }
  return candidate;
}

}  // namespace

void add_device_options(CLI::App& app, DeviceChoice* choice) {
  app.add_option("--backend", choice->backend, "Device, as in cpu or vulkan:1")
      ->type_name("NAME[:N]");
  app.add_option("--variant", choice->variant, "Kernel variant to insist on")->type_name("NAME");
  app.add_option("--limits", choice->limits,
                 "Limits to pretend: floor, or a list such as shared=16384,groups=65535")
      ->type_name("LIST");
}

std::string selector(const crossflash_device_info& info) {
  return fmt::format("{}:{}", info.backend, info.index);
}

std::vector<Candidate> open_devices(const DeviceChoice& choice) {
  const char* environment = std::getenv("CROSSFLASH_BACKEND");
  const bool one = !choice.backend.empty() || (environment != nullptr && *environment != '\0');
  std::vector<Candidate> candidates;
  if (one) {
    candidates.push_back(
        open_candidate(choice.backend.empty() ? environment : choice.backend, choice));
    return candidates;
  }
  for (const crossflash_device_info& info : list_devices()) {
    if (info.usable != 0) {
      candidates.push_back(open_candidate(selector(info), choice));
      continue;
    }
    Candidate& candidate = candidates.emplace_back();
    candidate.selector = selector(info);
    candidate.name = info.name;
    candidate.status = CROSSFLASH_UNSUPPORTED;
    candidate.reason = info.reason;
  }
  return candidates;
}

ExitCode no_device_code(const std::vector<Candidate>& candidates) {
  return candidates.size() == 1 ? exit_code(candidates.front().status) : ExitCode::unsupported;
}

std::string why_none(const std::vector<Candidate>& candidates) {
  std::string text = "no usable device";
  const char* separator = ": ";
  for (const Candidate& candidate : candidates) {
    text += fmt::format("{}{}: {}", separator, candidate.selector, candidate.reason);
    separator = "; ";
  }
  return text;
}

}  // namespace crossflash::tool
