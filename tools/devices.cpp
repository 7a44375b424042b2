// SPDX-License-Identifier: MIT
// devices.cpp: `crossflash devices`: every device of every backend of this build, and why those
// that cannot be used cannot. Exit code 3 if none can.
#include <algorithm>

#include "crossflash/crossflash.hpp"
#include "tools/commands.h"
#include "tools/device_choice.h"
#include "tools/table.h"

namespace crossflash::tool {
namespace {

nlohmann::json to_json(const crossflash_device_info& info) {
  return {{"device", selector(info)},   {"backend", info.backend}, {"index", info.index},
          {"usable", info.usable != 0}, {"name", info.name},       {"driver", info.driver},
          {"reason", info.reason}};
}

ExitCode list(bool json) {
  const std::vector<crossflash_device_info> infos = list_devices();
  if (json) {
    nlohmann::json devices = nlohmann::json::array();
    for (const crossflash_device_info& info : infos) devices.push_back(to_json(info));
    print_json({{"devices", devices}});
  } else {
    Table table({{"device"}, {"usable"}, {"name", Table::Align::left, 40}, {"driver"}});
    for (const crossflash_device_info& info : infos)
      table.add_row({selector(info), info.usable != 0 ? "yes" : "no", info.name, info.driver});
    fmt::print("{}", table.text());
    for (const crossflash_device_info& info : infos)
      if (info.usable == 0) fmt::print("{}: {}\n", selector(info), info.reason);
  }
  const bool any =
      std::any_of(infos.begin(), infos.end(), [](const auto& i) { return i.usable != 0; });
  return any ? ExitCode::right : ExitCode::unsupported;
}

}  // namespace

Command devices_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand("devices", "List every backend's devices, usable or not");
  auto json = std::make_shared<bool>(false);
  app->add_flag("--json", *json, "Print JSON");
  return {app, [json] { return list(*json); }};
}

}  // namespace crossflash::tool
