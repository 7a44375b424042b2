// SPDX-License-Identifier: MIT
// demo.cpp: `crossflash demo`: what a real model feeds its attention, forward and backward, on
// every device there is, in every type, judged against the double reference. The answers (exact and
// plain) are computed once; then each device runs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "bench/flops.h"
#include "common/half.h"
#include "tests/conformance/compare.h"
#include "tools/commands.h"
#include "tools/device_choice.h"
#include "tools/progress.h"
#include "tools/session.h"
#include "tools/table.h"
#include "tools/tensor_file.h"

namespace crossflash::tool {
namespace {

constexpr crossflash_dtype kTypes[] = {CROSSFLASH_F32, CROSSFLASH_F16, CROSSFLASH_BF16};
constexpr crossflash_causal kMasks[] = {CROSSFLASH_NOT_CAUSAL, CROSSFLASH_CAUSAL_BOTTOM_RIGHT};
constexpr TensorId kOutputs[] = {TensorId::o, TensorId::lse, TensorId::grad_q, TensorId::grad_k,
                                 TensorId::grad_v};

// One type and mask, with its right answers.
struct Question {
  Case problem;
  reference::Inputs inputs;
  reference::Outputs exact, plain;

  std::string type() const { return dtype_name(problem.problem.dtype); }
  std::string mask() const {
    return problem.problem.causal == CROSSFLASH_NOT_CAUSAL ? "full" : "causal";
  }
};

// One device's answer to a question.
struct Answer {
  std::string describe;
  conformance::TensorReport worst;  // the tensor that comes closest to its tolerance
  std::vector<std::string> failures;
  double forward_seconds = 0, backward_seconds = 0;
  crossflash_status status = CROSSFLASH_OK;  // else the device refused, or failed, for
  std::string reason;
};

struct Tensors {
  TensorFile q, k, v, grad_o;
};

Tensors read_data(const std::string& directory) {
  const auto read = [&](const char* name) {
    return read_tensor(name, fmt::format("{}/{}.npy", directory, name), Layout::bshd);
  };
  Tensors t{read("q"), read("k"), read("v"), read("do")};
  check_same(t.k, t.q, {.batch = true, .seq = false, .heads = false, .width = true});
  check_same(t.v, t.k, {.batch = true, .seq = true, .heads = true, .width = false});
  check_same(t.grad_o, t.q, {.batch = true, .seq = true, .heads = true, .width = false});
  check_same(t.grad_o, t.v, {.batch = false, .seq = false, .heads = false, .width = true});
  return t;
}

std::vector<float> rounded_values(const TensorFile& t, crossflash_dtype dtype) {
  const crossflash_dtype from = to_dtype(t.type);
  std::vector<float> values(t.data.size() / dtype_size(from));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = round_to(dtype, load_element(from, t.data.data(), i));
  return values;
}

Question make_question(const Tensors& t, crossflash_dtype dtype, crossflash_causal causal) {
  Question question{default_case(), {}, {}, {}};
  crossflash_problem& p = question.problem.problem;
  p.dtype = dtype;
  p.batch = t.q.batch;
  p.seq_q = t.q.seq;
  p.seq_k = t.k.seq;
  p.heads_q = t.q.heads;
  p.heads_kv = t.k.heads;
  p.d = t.q.width;
  p.d_v = t.v.width;
  p.causal = causal;
  question.inputs.q = rounded_values(t.q, dtype);
  question.inputs.k = rounded_values(t.k, dtype);
  question.inputs.v = rounded_values(t.v, dtype);
  question.inputs.grad_o = rounded_values(t.grad_o, dtype);
  const Problem checked = checked_problem(question.problem);
  question.exact = reference::exact_attention(checked, question.inputs);
  question.plain = reference::plain_attention(checked, question.inputs);
  return question;
}

const std::vector<double>& tensor_of(const reference::Outputs& outputs, TensorId id) {
  return id == TensorId::o        ? outputs.o
         : id == TensorId::lse    ? outputs.lse
         : id == TensorId::grad_q ? outputs.grad_q
         : id == TensorId::grad_k ? outputs.grad_k
                                  : outputs.grad_v;
}

// How much of its tolerance an error takes; NaN counts as more than any.
double strain(const conformance::TensorReport& report) {
  const double part = report.error / report.tolerance;
  return std::isnan(part) ? std::numeric_limits<double>::infinity() : part;
}

void judge(const Question& question, const Session& session, Answer* answer) {
  for (const TensorId id : kOutputs) {
    const conformance::Judgement judgement =
        conformance::judge_tensor(id, session.tensor(id), session.output(id),
                                  tensor_of(question.exact, id), tensor_of(question.plain, id));
    if (id == TensorId::o || strain(judgement.report) > strain(answer->worst))
      answer->worst = judgement.report;
    if (!judgement.failure.empty()) answer->failures.push_back(judgement.failure);
  }
}

// Wall-clock seconds of one call: the median of several after one that warms up; a call that
// takes long is not repeated.
template <typename Function>
double time_call(Function&& call) {
  constexpr double kEnough = 0.4;
  constexpr std::size_t kRuns = 9;
  std::vector<double> seconds;
  double total = 0;
  for (std::size_t n = 0; n <= kRuns && total < kEnough; ++n) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    total += elapsed.count();
    seconds.push_back(elapsed.count());
  }
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

Answer ask(const Device& device, const Question& question) {
  Answer answer;
  try {
    Session session(device, question.problem, question.inputs);
    answer.describe = session.describe();
    session.forward();
    session.backward();
    judge(question, session, &answer);
    answer.forward_seconds = time_call([&] { session.forward(); });
    answer.backward_seconds = time_call([&] { session.backward(); });
  } catch (const Error& error) {
    answer.status = error.status();
    answer.reason = error.what();
  }
  return answer;
}

// The words that name the kernel in "backend kernel type: more".
std::string kernel_name(const std::string& describe) {
  const std::string head = describe.substr(0, describe.find(':'));
  const auto begin = head.find(' ');
  const auto end = head.rfind(' ');
  return begin == std::string::npos || begin >= end ? head
                                                    : head.substr(begin + 1, end - begin - 1);
}

// A device's name without what its driver adds in brackets.
std::string short_device_name(const std::string& name) {
  const std::string head = name.substr(0, name.find('('));
  return head.substr(0, head.find_last_not_of(' ') + 1);
}

// The tensors' names as in the literature, and in the files.
std::string short_name(const std::string& tensor) {
  return tensor.starts_with("grad_") ? "d" + tensor.substr(5) : tensor;
}

// Everything the command says, row by row and at the end.
class Report {
 public:
  void add(const Candidate& device, const Question& question, const Answer& answer) {
    const std::string where =
        fmt::format("{} {} {}", device.selector, question.type(), question.mask());
    if (answer.status != CROSSFLASH_OK) {
      const bool refused = answer.status == CROSSFLASH_UNSUPPORTED;
      (refused ? refused_ : failed_).push_back(where + ": " + answer.reason);
      table_.add_row({device.selector, short_device_name(device.name),
                      refused ? "refused" : "failed", question.type(), question.mask(), "-", "-",
                      "-", "-", "-", "-", "-"});
    } else {
      for (const std::string& failure : answer.failures) wrong_.push_back(where + ": " + failure);
      add_row(device, question, answer);
      ++runs_;
    }
    json_.push_back(to_json(device, question, answer));
  }

  void add_unusable(const Candidate& device) {
    (device.status == CROSSFLASH_DEVICE_ERROR ? failed_ : refused_)
        .push_back(device.selector + ": not usable: " + device.reason);
  }
  void begin_device() {
    if (!json_.empty()) table_.add_rule();
  }

  ExitCode code() const {
    if (!wrong_.empty()) return ExitCode::wrong;
    return failed_.empty() && runs_ > 0 ? ExitCode::right : ExitCode::unsupported;
  }

  void print(bool as_json) const {
    if (as_json) {
      print_json({{"results", json_},
                  {"wrong", wrong_},
                  {"failed", failed_},
                  {"refused", refused_},
                  {"verdict", verdict()}});
      return;
    }
    fmt::print("{}", table_.text());
    for (const auto* notes : {&refused_, &failed_, &wrong_})
      for (const std::string& note : *notes) fmt::print("{}\n", note);
    fmt::print("{}\n", verdict());
  }

 private:
  void add_row(const Candidate& device, const Question& question, const Answer& a) {
    const auto gflops = [](double flops, double seconds) {
      return format_figure(flops / seconds * 1e-9);
    };
    const Problem problem = checked_problem(question.problem);
    const crossflash_causal causal = question.problem.problem.causal;
    table_.add_row({device.selector, short_device_name(device.name), kernel_name(a.describe),
                    question.type(), question.mask(), short_name(a.worst.name),
                    format_error(a.worst.error), format_error(a.worst.plain_error),
                    format_figure(a.forward_seconds * 1e3), format_figure(a.backward_seconds * 1e3),
                    gflops(bench::forward_flops(problem, causal), a.forward_seconds),
                    gflops(bench::backward_flops(problem, causal), a.backward_seconds)});
  }

  static nlohmann::json to_json(const Candidate& device, const Question& question,
                                const Answer& a) {
    nlohmann::json row = {{"device", device.selector},
                          {"name", device.name},
                          {"type", question.type()},
                          {"mask", question.mask()},
                          {"status", crossflash_status_name(a.status)}};
    if (a.status != CROSSFLASH_OK) {
      row["reason"] = a.reason;
      return row;
    }
    row["plan"] = a.describe;
    row["right"] = a.failures.empty();
    row["worst"] = {{"tensor", short_name(a.worst.name)},
                    {"error", a.worst.error},
                    {"plain_error", a.worst.plain_error},
                    {"tolerance", a.worst.tolerance}};
    row["forward_seconds"] = a.forward_seconds;
    row["backward_seconds"] = a.backward_seconds;
    return row;
  }

  std::string verdict() const {
    if (!wrong_.empty())
      return fmt::format("WRONG: {} tensors of {} runs are outside their tolerance", wrong_.size(),
                         runs_);
    if (!failed_.empty()) return fmt::format("FAILED: {} device errors", failed_.size());
    if (runs_ == 0) return "NOTHING RAN: no device here can do any of it";
    return fmt::format(
        "all right: {} runs within the tolerance (2 x the plain computation's error for o and lse, "
        "3 x for gradients)",
        runs_);
  }

  Table table_{{{"device", Table::Align::left, 10},
                {"name", Table::Align::left, 22},
                {"kernel", Table::Align::left, 14},
                {"type"},
                {"mask"},
                {"worst"},
                {"error", Table::Align::right},
                {"plain", Table::Align::right},
                {"fwd ms", Table::Align::right},
                {"bwd ms", Table::Align::right},
                {"fwd GF/s", Table::Align::right},
                {"bwd GF/s", Table::Align::right}}};
  nlohmann::json json_ = nlohmann::json::array();
  std::vector<std::string> wrong_, failed_, refused_;
  std::size_t runs_ = 0;
};

ExitCode demo(const std::string& directory, const DeviceChoice& choice, bool json) {
  const Tensors tensors = read_data(directory);
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
      questions.push_back(make_question(tensors, dtype, causal));
    }
  Report report;
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
