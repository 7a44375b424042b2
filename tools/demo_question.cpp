// SPDX-License-Identifier: MIT
// demo_question.cpp: see demo_question.h.
#include "tools/demo_question.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "tests/conformance/compare.h"
#include "tools/session.h"

namespace crossflash::tool {
namespace {

constexpr TensorId kOutputs[] = {TensorId::o, TensorId::lse, TensorId::grad_q, TensorId::grad_k,
                                 TensorId::grad_v};

std::vector<float> rounded_values(const TensorFile& t, crossflash_dtype dtype) {
  const crossflash_dtype from = to_dtype(t.type);
  std::vector<float> values(t.data.size() / dtype_size(from));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = round_to(dtype, load_element(from, t.data.data(), i));
  return values;
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

}  // namespace

DemoData read_demo_data(const std::string& directory) {
  const auto read = [&](const char* name) {
    return read_tensor(name, fmt::format("{}/{}.npy", directory, name), Layout::bshd);
  };
  DemoData t{read("q"), read("k"), read("v"), read("do")};
  check_same(t.k, t.q, {.batch = true, .seq = false, .heads = false, .width = true});
  check_same(t.v, t.k, {.batch = true, .seq = true, .heads = true, .width = false});
  check_same(t.grad_o, t.q, {.batch = true, .seq = true, .heads = true, .width = false});
  check_same(t.grad_o, t.v, {.batch = false, .seq = false, .heads = false, .width = true});
  return t;
}

Question make_question(const DemoData& t, crossflash_dtype dtype, crossflash_causal causal) {
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

}  // namespace crossflash::tool
