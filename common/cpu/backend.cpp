// SPDX-License-Identifier: MIT
// backend.cpp: the backend "cpu": one device, one variant, buffers in host memory. A run returns
// when it is done. It takes every problem the front end lets through, on every machine.
#include "common/backend.h"

#include <cstring>
#include <fstream>
#include <new>

#include "common/cpu/append.h"
#include "common/cpu/attention.h"
#include "common/cpu/multiply.h"
#include "common/half.h"
#include "common/parallel.h"

namespace crossflash {
namespace {

constexpr const char* kVariants[] = {"blocked"};

std::byte* address(const crossflash_buffer& buffer) {
  return static_cast<std::byte*>(buffer.handle) + buffer.offset;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("model name")) {
      const auto value = line.find_first_not_of(" \t:", std::strlen("model name"));
      if (value != std::string::npos) return line.substr(value);
    }
  return "host processor";
}

DeviceInfo describe_processor() {
  DeviceInfo info;
  info.backend = "cpu";
  info.usable = true;
  info.software = true;
  info.name = processor_name();
  info.driver = fmt::format("{} threads, {}", hardware_threads(), cpu::instruction_set());
  return info;
}

class CpuPlan final : public Plan {
 public:
  explicit CpuPlan(const Problem& problem)
      : problem_(problem),
        describe_(
            fmt::format("cpu blocked {}: tile {}x{} in f32, {}, {} threads; takes every problem",
                        dtype_name(problem.dtype), cpu::kTile, cpu::kTile, cpu::instruction_set(),
                        hardware_threads())),
        tiles_([this] { return std::make_unique<cpu::Tiles>(problem_); }),
        workspaces_([this] { return std::make_unique<std::vector<float>>(2 * rows()); }) {}

  std::uint64_t workspace_bytes(Pass pass) const override {
    return pass == Pass::backward ? 2 * rows() * sizeof(float) : 0;
  }
  const std::string& describe() const override { return describe_; }

  Status run(Pass pass, const RunArgs& args) override {
    const auto option = [&](OptionId id) { return address(args.option(id)); };
    const auto tensor = [&](TensorId id) {
      return cpu::HostTensor{&problem_.tensor(id), address(args.buffer(id))};
    };
    cpu::Run run{problem_,
                 tensor(TensorId::q),
                 tensor(TensorId::k),
                 tensor(TensorId::v),
                 tensor(TensorId::o),
                 tensor(TensorId::grad_o),
                 tensor(TensorId::grad_q),
                 tensor(TensorId::grad_k),
                 tensor(TensorId::grad_v),
                 {.bias = option(OptionId::bias),
                  .alibi = reinterpret_cast<const float*>(option(OptionId::alibi)),
                  .sink = reinterpret_cast<const float*>(option(OptionId::sink)),
                  .mask = reinterpret_cast<const shared::uint*>(option(OptionId::mask)),
                  .rows_q = option(OptionId::rows_q),
                  .rows_k = option(OptionId::rows_k),
                  .page_table = reinterpret_cast<const std::int32_t*>(option(OptionId::page_table)),
                  .grad_bias = option(OptionId::grad_bias),
                  .grad_sink = reinterpret_cast<float*>(option(OptionId::grad_sink))},
                 reinterpret_cast<float*>(address(args.buffer(TensorId::lse))),
                 nullptr,
                 nullptr,
                 random_state(pass, args),
                 tiles_};
    if (pass == Pass::append) {
      append(run, args);
    } else if (pass == Pass::forward) {
      cpu::forward(run);
    } else if (args.workspace.handle != nullptr) {
      backward(run, reinterpret_cast<float*>(address(args.workspace)));
    } else {
      backward(run, workspaces_.borrow()->data());
    }
    return {};
  }

 private:
  void append(const cpu::Run& run, const RunArgs& args) const {
    const Append& a = problem_.append;
    const auto option = [&](OptionId id) { return address(args.option(id)); };
    cpu::append(run, {{&a.new_k, option(OptionId::new_k)},
                      {&a.new_v, option(OptionId::new_v)},
                      {&a.rotated_q, option(OptionId::rotated_q)},
                      reinterpret_cast<const float*>(option(OptionId::cosine)),
                      reinterpret_cast<const float*>(option(OptionId::sine))});
  }
  void backward(cpu::Run& run, float* workspace) const {
    run.delta = workspace;
    run.mend = workspace + rows();
    cpu::backward(run);
  }
  // Of lse.
  std::size_t rows() const {
    const Tensor& lse = problem_.tensor(TensorId::lse);
    return static_cast<std::size_t>(lse.batch * lse.heads * lse.seq);
  }
  shared::cf_dropout random_state(Pass pass, const RunArgs& args) const {
    if (!problem_.uses(OptionId::random, pass)) return args.dropout;
    const auto* state =
        reinterpret_cast<const std::uint64_t*>(address(args.option(OptionId::random)));
    return {static_cast<shared::uint>(state[0]), static_cast<shared::uint>(state[0] >> 32),
            static_cast<shared::uint>(state[1]), problem_.drop_threshold};
  }

  const Problem problem_;
  const std::string describe_;
  cpu::Pool<cpu::Tiles> tiles_;
  cpu::Pool<std::vector<float>> workspaces_;
};

class CpuDevice final : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  std::span<const char* const> variants() const override { return kVariants; }
  Status supports(const Problem&) const override { return {}; }
  Status plan(const Problem& problem, std::unique_ptr<Plan>* out) override {
    *out = std::make_unique<CpuPlan>(problem);
    return {};
  }

  Status allocate(std::uint64_t bytes, crossflash_buffer* out) override {
    void* memory = ::operator new(bytes, std::nothrow);
    if (memory == nullptr) return device_error("bytes is {}; the host has not that much", bytes);
    *out = {memory, 0};
    return {};
  }
  void release(crossflash_buffer buffer) override { ::operator delete(buffer.handle); }
  Status upload(crossflash_buffer destination, const void* source, std::uint64_t bytes) override {
    std::memcpy(address(destination), source, bytes);
    return {};
  }
  Status download(void* destination, crossflash_buffer source, std::uint64_t bytes) override {
    std::memcpy(destination, address(source), bytes);
    return {};
  }
  Status wait() override { return {}; }

 private:
  const DeviceInfo info_ = describe_processor();
};

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }
  std::vector<DeviceInfo> devices() override { return {describe_processor()}; }
  Status open(const DeviceOptions& options, std::unique_ptr<Device>* out) override {
    if (options.index != 0)
      return unsupported("backend is \"cpu:{}\"; the only device is cpu:0", options.index);
    if (!options.variant.empty() && options.variant != kVariants[0])
      return unsupported("variant is \"{}\"; the variants of cpu are: {}", options.variant,
                         kVariants[0]);
    if (!options.limits.empty())
      return unsupported("limits is \"{}\"; the cpu backend has no limits that could be lowered",
                         options.limits);
    *out = std::make_unique<CpuDevice>();
    return {};
  }
};

}  // namespace

Backend* cpu_backend() {
  static CpuBackend backend;
  return &backend;
}

}  // namespace crossflash
