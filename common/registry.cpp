// SPDX-License-Identifier: MIT
#include "common/registry.h"

#include <charconv>
#include <cstdlib>

namespace crossflash {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string backend_names() {
  std::string names;
  for (Backend* backend : backends()) {
    if (!names.empty()) names += ", ";
    names += backend->name();
  }
  return names;
}

Status parse_selector(const std::string& selector, std::string* name, int* index) {
  const auto colon = selector.find(':');
  *name = selector.substr(0, colon);
  *index = 0;
  if (colon == std::string::npos) return {};
  const char* first = selector.data() + colon + 1;
  const char* last = selector.data() + selector.size();
  const auto [end, error] = std::from_chars(first, last, *index);
  if (error != std::errc{} || end != last || *index < 0)
    return invalid("backend is \"{}\"; behind the colon stands the device's number", selector);
  return {};
}

// The first device that is not this machine's CPU, by the backends' order; else the CPU through the
// last backend, which needs no driver for it.
Status open_best(DeviceOptions options, std::unique_ptr<Device>* out) {
  Backend* best = nullptr;
  int software = 0;
  for (Backend* backend : backends())
    for (const DeviceInfo& info : backend->devices()) {
      if (!info.usable) continue;
      options.index = info.index;
      if (!info.software) return backend->open(options, out);
      if (best != backend) software = info.index;
      best = backend;
    }
  options.index = software;
  if (best != nullptr) return best->open(options, out);
  return unsupported("no backend of this build ({}) has a usable device", backend_names());
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> all;
  for (Backend* backend : backends())
    for (DeviceInfo& info : backend->devices()) all.push_back(std::move(info));
  return all;
}

Status open_device(const std::string& selector, DeviceOptions options,
                   std::unique_ptr<Device>* out) {
  const std::string wanted = selector.empty() ? environment("CROSSFLASH_BACKEND") : selector;
  if (options.variant.empty()) options.variant = environment("CROSSFLASH_VARIANT");
  if (options.limits.empty()) options.limits = environment("CROSSFLASH_LIMITS");

  if (wanted.empty()) return open_best(options, out);

  std::string name;
  CROSSFLASH_TRY(parse_selector(wanted, &name, &options.index));
  for (Backend* backend : backends())
    if (name == backend->name()) return backend->open(options, out);
  return unsupported("backend is \"{}\"; this build has {}", name, backend_names());
}

}  // namespace crossflash
