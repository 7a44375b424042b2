// SPDX-License-Identifier: MIT
#include "tests/conformance/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/half.h"
#include "tests/conformance/fill.h"
#include "tests/conformance/sequences.h"

namespace crossflash::conformance {
namespace {

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

template <typename To, typename From>
std::vector<std::byte> bytes_of(const std::vector<From>& values) {
  std::vector<To> as;
  for (const From value : values) as.push_back(static_cast<To>(value));
  const auto bytes = std::as_bytes(std::span(as));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> bytes_of_elements(crossflash_dtype dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  for (std::size_t n = 0; n < values.size(); ++n) store_element(dtype, bytes.data(), n, values[n]);
  return bytes;
}

// An option's array as one row.
View view_of(crossflash_dtype dtype, std::int64_t elements) {
  View view;
  view.tensor = {dtype, 1, 1, 1, elements, {elements, elements, elements}};
  return view;
}

class Runner {
 public:
  Runner(const Device& device, const Execution& execution, const Plan& plan)
      : device_(device), execution_(execution), plan_(plan) {
    const Status status = check_problem(execution.problem, &problem_);
    if (!status.ok()) throw Misbehaviour("a plan was made of a bad problem: " + status.text());
    make_memory();
  }

  Results run() {
    Results results;
    results.describe = plan_.describe();
    results.workspace = plan_.workspace(CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD);
    if (problem_.forward) {
      run_twice(CROSSFLASH_FORWARD, {output(TensorId::o), output(TensorId::lse)});
      results.o = read(TensorId::o);
      results.lse = read(TensorId::lse);
    }
    if (problem_.backward) {
      std::vector<Output> gradients{output(TensorId::grad_q), output(TensorId::grad_k),
                                    output(TensorId::grad_v)};
      for (const OptionId id : {OptionId::grad_bias, OptionId::grad_sink})
        if (problem_.uses(id, true)) gradients.push_back({name_of(id), &*option(id), false});
      run_twice(CROSSFLASH_BACKWARD, gradients);
      results.grad_q = read(TensorId::grad_q);
      results.grad_k = read(TensorId::grad_k);
      results.grad_v = read(TensorId::grad_v);
      results.grad_bias = read(OptionId::grad_bias);
      results.grad_sink = read(OptionId::grad_sink);
    }
    check_inputs();
    return results;
  }

 private:
  // What a pass writes.
  struct Output {
    const char* name;
    Memory* memory;
    bool may_vary;
  };

  static const char* name_of(TensorId id) { return kTensorNames[static_cast<std::size_t>(id)]; }
  static const char* name_of(OptionId id) { return kOptionNames[static_cast<std::size_t>(id)]; }
  Output output(TensorId id) { return {name_of(id), &memory(id), may_vary(id)}; }
  Role role(TensorId id) const {
    const bool output = problem_.forward ? id == TensorId::o || id == TensorId::lse : false;
    return output || id >= TensorId::grad_q ? Role::output : Role::input;
  }

  bool used(TensorId id) const { return id < TensorId::grad_o || problem_.backward; }
  const Place& place(TensorId id) const { return execution_.arrangement.place(id); }
  Memory& memory(TensorId id) { return memory_[place(id).block]; }
  std::optional<Memory>& option(OptionId id) { return options_[static_cast<std::size_t>(id)]; }

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
      if (used(id) && role(id) == Role::output)
        memory(id).host.poison(place(id).view,
                               is_packed(id) ? in_sequences(id) : std::vector<bool>{});
    }
    for (Memory& m : memory_) m.upload();
    make_options();
  }

  void make_options() {
    const reference::Inputs& in = execution_.inputs;
    const auto indices = [this](const std::vector<std::int64_t>& rows) {
      return problem_.sequences.index_bytes == 8 ? bytes_of<std::int64_t>(rows)
                                                 : bytes_of<std::int32_t>(rows);
    };
    give(OptionId::bias, bytes_of_elements(problem_.bias.dtype, in.bias));
    give(OptionId::alibi, bytes_of<float>(in.alibi));
    give(OptionId::sink, bytes_of<float>(in.sink));
    give(OptionId::mask, bytes_of<shared::uint>(in.mask));
    give(OptionId::rows_q, indices(in.rows_q));
    give(OptionId::rows_k, indices(in.rows_k));
    give(OptionId::page_table, bytes_of<std::int32_t>(in.page_table));
    // Of the offset the low half counts.
    give(OptionId::random,
         bytes_of<std::uint64_t>(
             std::vector{execution_.seed, execution_.offset | std::uint64_t{0xdeadbeef} << 32}));
    for (const auto& [id, dtype] : {std::pair{OptionId::grad_bias, problem_.bias.dtype},
                                    std::pair{OptionId::grad_sink, CROSSFLASH_F32}}) {
      if (!problem_.uses(id, true)) continue;
      const std::int64_t extent = problem_.option_extent(id);
      Block block(dtype, extent, execution_.arrangement.guard, Role::output, 0);
      block.poison(view_of(dtype, extent));
      option(id).emplace(device_, std::move(block));
    }
    for (auto& memory : options_)
      if (memory) memory->upload();
  }

  void give(OptionId id, const std::vector<std::byte>& contents) {
    if (problem_.uses(id, true))
      option(id).emplace(
          device_, Block(problem_.option_element(id), contents, execution_.arrangement.guard));
  }

  bool of_keys(TensorId id) const { return id == TensorId::grad_k || id == TensorId::grad_v; }
  // Whether rows of no sequence are not the output's own.
  bool is_packed(TensorId id) const {
    const Sequences& s = problem_.sequences;
    return (of_keys(id) ? s.k : s.q) == CROSSFLASH_ROWS_OFFSETS;
  }
  std::vector<bool> in_sequences(TensorId id) const {
    return conformance::in_sequences(problem_, execution_.inputs, id);
  }

  void fill(TensorId id, const std::vector<float>& values) {
    memory(id).host.write(place(id).view, values);
  }

  // What a backward of its own is fed: the device's forward, which rounded the scores its own way.
  void fill_from_forward() {
    Execution forward = execution_;
    forward.problem.passes = CROSSFLASH_FORWARD;
    const Results results = execute(device_, forward);
    fill(TensorId::o, without_unused(TensorId::o, results.o));
    fill(TensorId::lse, without_unused(TensorId::lse, results.lse));
  }

  std::vector<float> without_unused(TensorId id, std::vector<float> values) const {
    const std::vector<bool> used = in_sequences(id);
    for (std::size_t n = 0; n < used.size(); ++n)
      if (!used[n]) values[n] = execution_.gap;
    return values;
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
    crossflash_buffer* const options[kOptionCount] = {
        &args.bias,   &args.alibi,      &args.sink,   &args.mask,      &args.rows_q,
        &args.rows_k, &args.page_table, &args.random, &args.grad_bias, &args.grad_sink};
    for (std::size_t n = 0; n < kOptionCount; ++n) {
      if (!options_[n]) continue;
      *options[n] = options_[n]->device;
      options[n]->offset += options_[n]->host.offset();
    }
    args.workspace = workspace;
    if (execution_.problem.random_on_device != 0) return args;
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
    const auto words = static_cast<std::int64_t>((bytes + 3) / 4);  // the last one whole
    const View view = view_of(CROSSFLASH_F32, words);
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
  void run_twice(std::uint32_t pass, const std::vector<Output>& outputs) {
    run_in_own_workspace(pass);
    std::vector<Block> first;
    for (const Output& out : outputs) first.push_back(checked(out.name, *out.memory));
    for (const Output& out : outputs) out.memory->upload();
    run_once(pass, {});
    for (std::size_t n = 0; n < outputs.size(); ++n) {
      const auto a = first[n].bytes();
      const Block second = checked(outputs[n].name, *outputs[n].memory);
      const auto b = second.bytes();
      if (!outputs[n].may_vary && !std::equal(a.begin(), a.end(), b.begin()))
        throw Misbehaviour(fmt::format("{} differs between two runs", outputs[n].name));
    }
  }

  // What the device holds, once it is known that nothing around the tensor was touched.
  static Block checked(const char* name, const Memory& memory) {
    Block now = memory.download();
    const std::string damage = now.damage(memory.host);
    if (!damage.empty()) throw Misbehaviour(fmt::format("{}: {}", name, damage));
    return now;
  }

  // Padding has been written, to what a row has that sees no key; of packed tensors it was not.
  std::vector<float> read(TensorId id) {
    std::vector<float> values = checked(name_of(id), memory(id)).read(place(id).view);
    const std::vector<bool> used = in_sequences(id);
    const float nothing = id == TensorId::lse ? -std::numeric_limits<float>::infinity() : 0.0f;
    for (std::size_t n = 0; n < used.size(); ++n) {
      if (used[n]) continue;
      if (is_packed(id)) values[n] = nothing;
      if (values[n] != nothing)
        throw Misbehaviour(fmt::format("{} {} is {}, should be {}: it lies in padding", name_of(id),
                                       coordinates(id, place(id).view.tensor, n), values[n],
                                       nothing));
    }
    return values;
  }

  std::vector<float> read(OptionId id) {
    if (!option(id)) return {};
    const auto dtype = id == OptionId::grad_bias ? problem_.bias.dtype : CROSSFLASH_F32;
    return checked(name_of(id), *option(id)).read(view_of(dtype, problem_.option_extent(id)));
  }

  void check_inputs() {
    for (std::size_t n = 0; n < kTensorCount; ++n) {
      const auto id = static_cast<TensorId>(n);
      if (used(id) && role(id) == Role::input) checked(name_of(id), memory(id));
    }
    for (std::size_t n = 0; n < static_cast<std::size_t>(OptionId::grad_bias); ++n)
      if (options_[n]) checked(kOptionNames[n], *options_[n]);
  }

  const Device& device_;
  const Execution& execution_;
  const Plan& plan_;
  Problem problem_{};
  std::vector<Memory> memory_;
  std::array<std::optional<Memory>, kOptionCount> options_;
};

}  // namespace

Status make_execution(const Case& c, Execution* out) {
  Execution e;
  e.problem = c.problem;
  apply_layout(c, &e.problem);
  Problem problem;
  CROSSFLASH_TRY(check_problem(e.problem, &problem));
  e.arrangement = arrange(problem, c.layout);
  e.inputs = make_inputs(c, problem);
  e.seed = c.seed;
  e.offset = c.offset;
  problem.random_on_device = false;  // the same state, wherever it lies
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
  return execute(device, execution, Plan(device, execution.problem));
}

Results execute(const Device& device, const Execution& execution, const Plan& plan) {
  return Runner(device, execution, plan).run();
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
  if (!same(a.grad_bias, b.grad_bias)) return "grad_bias";
  if (!same(a.grad_sink, b.grad_sink)) return "grad_sink";
  return {};
}

}  // namespace crossflash::conformance
