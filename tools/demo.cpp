// SPDX-License-Identifier: MIT
// demo.cpp: `crossflash demo`: what a real model feeds its attention, forward and backward, on
// every device there is, in every type, judged against the double reference. The answers are
// computed once; then each device runs.
#include <algorithm>

#include "tools/commands.h"
#include "tools/demo_report.h"
#include "tools/progress.h"

namespace crossflash::tool {
namespace {

constexpr crossflash_dtype kTypes[] = {CROSSFLASH_F32, CROSSFLASH_F16, CROSSFLASH_BF16};
constexpr crossflash_causal kMasks[] = {CROSSFLASH_NOT_CAUSAL, CROSSFLASH_CAUSAL_BOTTOM_RIGHT};

ExitCode demo(const std::string& directory, const DeviceChoice& choice, bool json) {
  const DemoData data = read_demo_data(directory);
  const std::vector<Candidate> devices = open_devices(choice);
  if (std::none_of(devices.begin(), devices.end(),
                   [](const auto& d) { return d.device != nullptr; }))
    throw Failure(no_device_code(devices), why_none(devices));

  constexpr std::size_t kQuestions = std::size(kTypes) * std::size(kMasks);
  Progress progress(kQuestions * (1 + devices.size()));
  std::vector<Question> questions;
  for (const crossflash_dtype dtype : kTypes)
    for (const crossflash_causal causal : kMasks) {
      progress.step(fmt::format("the right answers in {}", dtype_name(dtype)));
      questions.push_back(make_question(data, dtype, causal));
    }
  DemoReport report;
  for (const Candidate& device : devices) {
    if (!device.device) {
      report.add_unusable(device);
      continue;
    }
    report.begin_device();
    for (const Question& question : questions) {
      progress.step(fmt::format("{} {} {}", device.selector, question.type(), question.mask()));
      report.add(device, question, ask(*device.device, question));
    }
  }
  progress.clear();
  report.print(json);
  return report.code();
}

}  // namespace

Command demo_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "demo", "Attention of a real model on every device, judged against the double reference");
  struct Options {
    std::string directory;
    DeviceChoice device;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  app->add_option("--data", o->directory, "Folder with q.npy, k.npy, v.npy and do.npy")
      ->type_name("DIR")
      ->required();
  add_device_options(*app, &o->device);
  app->add_flag("--json", o->json, "Print JSON");
  return {app, [o] { return demo(o->directory, o->device, o->json); }};
}

}  // namespace crossflash::tool
