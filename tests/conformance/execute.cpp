// SPDX-License-Identifier: MIT
#include "tests/conformance/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "tests/conformance/fill.h"

namespace crossflash::conformance {
namespace {

constexpr TensorId kForwardOutputs[] = {TensorId::o, TensorId::lse};
constexpr TensorId kGradients[] = {TensorId::grad_q, TensorId::grad_k, TensorId::grad_v};

const char* name_of(TensorId id) { return kTensorNames[static_cast<std::size_t>(id)]; }

// A buffer and what it held when it was last uploaded.
struct Memory {
  Block host;
  Buffer device;

  Memory(const Device& on, Block block) : host(std::move(block)), device(on, host.bytes().size()) {}
  void upload() { device.upload(std::as_bytes(std::span(host.bytes()))); }
  Block download() const {
    Block now = host;
    const auto bytes = device.download<std::byte>();
    std::copy(bytes.begin(), bytes.end(), now.bytes().begin());
    return now;
  }
};

class Runner {
 public:
  Runner(const Device& device, const Execution& execution)
      : device_(device), execution_(execution), plan_(device, execution.problem) {
    const Status status = check_problem(execution.problem, &problem_);
    if (!status.ok()) throw Misbehaviour("a plan was made of a bad problem: " + status.text());
    make_memory();
  }

  Results run() {
    Results results;
    results.describe = plan_.describe();
    results.workspace = plan_.workspace(CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD);
    if (problem_.forward) {
      run_twice(CROSSFLASH_FORWARD, kForwardOutputs);
      results.o = read(TensorId::o);
      results.lse = read(TensorId::lse);
    }
    if (problem_.backward) {
      run_twice(CROSSFLASH_BACKWARD, kGradients);
      results.grad_q = read(TensorId::grad_q);
      results.grad_k = read(TensorId::grad_k);
      results.grad_v = read(TensorId::grad_v);
    }
    check_inputs();
    return results;
  }

 private:
  Role role(TensorId id) const {
    const bool output = problem_.forward ? id == TensorId::o || id == TensorId::lse : false;
    return output || id >= TensorId::grad_q ? Role::output : Role::input;
  }

  bool used(TensorId id) const { return id < TensorId::grad_o || problem_.backward; }
  const Place& place(TensorId id) const { return execution_.arrangement.place(id); }
  Memory& memory(TensorId id) { return memory_[place(id).block]; }

  void make_memory() {
    const Arrangement& a = execution_.arrangement;
    memory_.reserve(a.extents.size());
    for (std::size_t n = 0; n < kTensorCount; ++n) {
      const auto id = static_cast<TensorId>(n);
      if (used(id) && place(id).block == memory_.size()) {
        const auto dtype = problem_.tensor(id).dtype;
        memory_.emplace_back(
            device_, Block(dtype, a.extents[memory_.size()], a.guard, role(id), execution_.gap));
      }
    }
    fill(TensorId::q, execution_.inputs.q);
    fill(TensorId::k, execution_.inputs.k);
    fill(TensorId::v, execution_.inputs.v);
    if (problem_.backward) fill(TensorId::grad_o, execution_.inputs.grad_o);
    if (!problem_.forward) fill_from_forward();
    for (std::size_t n = 0; n < kTensorCount; ++n) {
      const auto id = static_cast<TensorId>(n);
      if (used(id) && role(id) == Role::output) memory(id).host.poison(place(id).view);
    }
    for (Memory& m : memory_) m.upload();
  }

  void fill(TensorId id, const std::vector<float>& values) {
    memory(id).host.write(place(id).view, values);
  }

  // What a backward of its own is fed: the device's forward, which rounded the scores its own way.
  void fill_from_forward() {
    Execution forward = execution_;
    forward.problem.passes = CROSSFLASH_FORWARD;
    const Results results = Runner(device_, forward).run();
    fill(TensorId::o, results.o);
    fill(TensorId::lse, results.lse);
  }

  crossflash_args make_args(const crossflash_buffer& workspace) {
    crossflash_args args = crossflash::make_args();
    crossflash_buffer* const buffers[kTensorCount] = {&args.q,      &args.k,      &args.v,
                                                      &args.o,      &args.lse,    &args.grad_o,
                                                      &args.grad_q, &args.grad_k, &args.grad_v};
    for (std::size_t n = 0; n < kTensorCount; ++n) {
      const auto id = static_cast<TensorId>(n);
      if (!used(id) || place(id).view.tensor.empty()) continue;  // {NULL, 0} is allowed then
      *buffers[n] = memory(id).device;
      buffers[n]->offset += memory(id).host.offset(place(id).view);
    }
    args.workspace = workspace;
    args.seed = execution_.seed;
    args.offset = execution_.offset;
    return args;
  }

  void run_once(std::uint32_t pass, const crossflash_buffer& workspace) {
    const crossflash_args args = make_args(workspace);
    if (pass == CROSSFLASH_FORWARD) {
      plan_.forward(args);
    } else {
      plan_.backward(args);
    }
    device_.wait();
  }

  void run_in_own_workspace(std::uint32_t pass) {
    const std::uint64_t bytes = plan_.workspace(pass);
    if (bytes == 0) return run_once(pass, {});
    View view;  // poisoned floats, the last one whole
    const auto words = static_cast<std::int64_t>((bytes + 3) / 4);
    view.tensor = {CROSSFLASH_F32, 1, 1, 1, words, {words, words, words}};
    Block block(CROSSFLASH_F32, words, execution_.arrangement.guard, Role::output, 0);
    block.poison(view);
    Memory workspace(device_, block);
    workspace.upload();
    crossflash_buffer buffer = workspace.device;
    buffer.offset += block.offset(view);
    run_once(pass, buffer);
    const std::string damage = workspace.download().damage(block);
    if (!damage.empty()) throw Misbehaviour("workspace: " + damage);
  }

  // Where the order of sums is free: hip makes use of it (docs/numerics.md).
  bool may_vary(TensorId id) const {
    return id == TensorId::grad_q && !problem_.deterministic && problem_.dtype != CROSSFLASH_F32 &&
           std::string_view(device_.info().backend) == "hip";
  }

  // Leaves the outputs of the second run on the device.
  template <std::size_t N>
  void run_twice(std::uint32_t pass, const TensorId (&outputs)[N]) {
    run_in_own_workspace(pass);
    std::vector<Block> first;
    for (const TensorId id : outputs) first.push_back(checked(id));
    for (const TensorId id : outputs) memory(id).upload();
    run_once(pass, {});
    for (std::size_t n = 0; n < N; ++n) {
      const auto a = first[n].bytes();
      const Block second = checked(outputs[n]);
      const auto b = second.bytes();
      if (!may_vary(outputs[n]) && !std::equal(a.begin(), a.end(), b.begin()))
        throw Misbehaviour(fmt::format("{} differs between two runs", name_of(outputs[n])));
    }
  }

  // What the device holds, once it is known that nothing around the tensor was touched.
  Block checked(TensorId id) {
    Block now = memory(id).download();
    const std::string damage = now.damage(memory(id).host);
    if (!damage.empty()) throw Misbehaviour(fmt::format("{}: {}", name_of(id), damage));
    return now;
  }

  std::vector<float> read(TensorId id) { return checked(id).read(place(id).view); }

  void check_inputs() {
    for (std::size_t n = 0; n < kTensorCount; ++n) {
      const auto id = static_cast<TensorId>(n);
      if (used(id) && role(id) == Role::input) checked(id);
    }
  }

  const Device& device_;
  const Execution& execution_;
  Plan plan_;
  Problem problem_{};
  std::vector<Memory> memory_;
};

}  // namespace

Status make_execution(const Case& c, Execution* out) {
  Execution e;
  e.problem = c.problem;
  apply_layout(c.layout, &e.problem);
  Problem problem;
  CROSSFLASH_TRY(check_problem(e.problem, &problem));
  e.arrangement = arrange(problem, c.layout);
  e.inputs = make_inputs(c, problem);
  e.seed = c.seed;
  e.offset = c.offset;
  CROSSFLASH_TRY(check_random_state(problem, c.seed, c.offset, &e.inputs.dropout));
  *out = std::move(e);
  return {};
}

std::optional<Status> refusal(const Device& device, const crossflash_problem& problem) {
  const crossflash_status supported = crossflash_supports(device.get(), &problem);
  const std::string why = supported == CROSSFLASH_OK ? "" : crossflash_last_error();
  try {
    const Plan plan(device, problem);
    if (supported != CROSSFLASH_OK)
      throw Misbehaviour("a plan was made of what supports() refuses: " + why);
    return std::nullopt;
  } catch (const Error& e) {
    if (e.status() != supported || e.what() != why)
      throw Misbehaviour(fmt::format("supports() says {} \"{}\", making the plan says {} \"{}\"",
                                     crossflash_status_name(supported), why,
                                     crossflash_status_name(e.status()), e.what()));
    return Status(supported, why);
  }
}

Results execute(const Device& device, const Execution& execution) {
  return Runner(device, execution).run();
}

std::string first_difference(const Results& a, const Results& b) {
  const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
  };
  if (!same(a.o, b.o)) return "o";
  if (!same(a.lse, b.lse)) return "lse";
  if (!same(a.grad_q, b.grad_q)) return "grad_q";
  if (!same(a.grad_k, b.grad_k)) return "grad_k";
  if (!same(a.grad_v, b.grad_v)) return "grad_v";
  return {};
}

}  // namespace crossflash::conformance
