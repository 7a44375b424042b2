// SPDX-License-Identifier: MIT
#include "vulkan/caps.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <type_traits>

namespace crossflash::vulkan {
namespace {

// "Required Limits" of the Vulkan 1.1 specification.
constexpr std::uint32_t kFloorShared = 16384;
constexpr std::uint32_t kFloorInvocations = 128;
constexpr std::uint32_t kFloorBuffers = 4;
constexpr std::uint32_t kFloorGroups = 65535;
constexpr std::uint64_t kFloorRange = std::uint64_t{1} << 27;
constexpr std::uint64_t kFloorAlignment = 256;
constexpr std::uint32_t kFloorPush = 128;

void lower_to_floor(Caps* caps) {
  caps->shared_bytes = std::min(caps->shared_bytes, kFloorShared);
  caps->invocations = std::min(caps->invocations, kFloorInvocations);
  caps->storage_buffers = std::min(caps->storage_buffers, kFloorBuffers);
  caps->groups = std::min(caps->groups, kFloorGroups);
  caps->range = std::min(caps->range, kFloorRange);
  caps->alignment = std::max(caps->alignment, kFloorAlignment);
  caps->push_bytes = std::min(caps->push_bytes, kFloorPush);
}

template <typename Number>
Status lower(std::string_view name, std::string_view text, Number* limit) {
  Number value{};
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last || !(value > 0))
    return invalid("limits has {}={}; the value is a positive {}", name, text,
                   std::is_integral_v<Number> ? "whole number that fits" : "number");
  *limit = std::min(*limit, value);
  return {};
}

Status lower_one(std::string_view item, Caps* caps) {
  if (item == "floor") {
    lower_to_floor(caps);
    return {};
  }
  if (item == "gpu") {
    caps->software = false;
    return {};
  }
  const auto equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view{} : item.substr(equals + 1);
  if (name == "shared") return lower(name, value, &caps->shared_bytes);
  if (name == "invocations") return lower(name, value, &caps->invocations);
  if (name == "buffers") return lower(name, value, &caps->storage_buffers);
  if (name == "groups") return lower(name, value, &caps->groups);
  if (name == "range") return lower(name, value, &caps->range);
  if (name == "flops") return lower(name, value, &caps->flops_per_dispatch);
  if (name == "loops") return lower(name, value, &caps->loop_iterations);
  return invalid(
      "limits names \"{}\"; the names are floor, gpu, shared, invocations, buffers, groups, "
      "range, flops, loops",
      name);
}

}  // namespace

Status lower_caps(const std::string& limits, Caps* caps) {
  if (limits.empty()) return {};
  Caps lowered = *caps;
  for (std::string_view rest = limits;;) {
    const auto comma = rest.find(',');
    CROSSFLASH_TRY(lower_one(rest.substr(0, comma), &lowered));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  *caps = lowered;
  return {};
}

}  // namespace crossflash::vulkan
