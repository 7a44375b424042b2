// SPDX-License-Identifier: MIT
#include "hip/runner.h"

#include <algorithm>

#include "common/half.h"
#include "hip/check.h"
#include "hip/device.h"

namespace crossflash::hip {

Status Runner::create(const HipDevice& device, HipPlan plan, std::unique_ptr<Plan>* out) {
  const CurrentDevice current(device.ordinal());
  CROSSFLASH_TRY(current.status());
  std::unique_ptr<Runner> runner(new Runner(device, std::move(plan)));
  for (const Pass pass : kAllPasses)
    for (const Step& step : runner->plan_.steps(pass)) {
      const Status status =
          check(static_cast<hipError_t>(step.kernel->prepare()), step.kernel->name);
      if (!status.ok())
        return device_error("{} cannot run on {}: {}", step.kernel->name, device.info().name,
                            status.text());
    }
  const std::uint64_t bytes =
      std::max(runner->workspace_bytes(Pass::forward), runner->workspace_bytes(Pass::backward));
  if (bytes > 0) {
    runner->workspace_ = std::make_unique<Workspace>();
    CROSSFLASH_TRY(runner->workspace_->create(bytes));
  }
  *out = std::move(runner);
  return {};
}

Runner::~Runner() {
  const CurrentDevice current(device_.ordinal());
  workspace_.reset();
}

Status Runner::check_buffers(Pass pass, const RunArgs& args) const {
  for (std::size_t n = 0; n < kTensorCount; ++n) {
    const Tensor& tensor = plan_.problem.tensors[n];
    if (!plan_.problem.uses(static_cast<TensorId>(n), pass)) continue;
    CROSSFLASH_TRY(device_.buffers().check_stretch(
        kTensorNames[n], args.buffers[n],
        static_cast<std::uint64_t>(tensor.extent()) * dtype_size(tensor.dtype)));
  }
  for (std::size_t n = 0; n < kOptionCount; ++n) {
    const auto id = static_cast<OptionId>(n);
    if (plan_.problem.uses(id, pass))
      CROSSFLASH_TRY(device_.buffers().check_stretch(
          kOptionNames[n], args.option(id),
          static_cast<std::uint64_t>(plan_.problem.option_extent(id)) *
              plan_.problem.option_element(id)));
  }
  return device_.buffers().check_stretch("workspace", args.workspace, plan_.workspace(pass));
}

KernelArguments Runner::bind(Pass pass, const RunArgs& args, std::byte* workspace) const {
  KernelArguments a = plan_.arguments;
  const auto data = [&](TensorId id) { return address(args.buffer(id)); };
  a.dropout = args.dropout;
  a.q.data = data(TensorId::q);
  a.k.data = data(TensorId::k);
  a.v.data = data(TensorId::v);
  a.o.data = data(TensorId::o);
  a.grad_o.data = data(TensorId::grad_o);
  a.grad_q.data = data(TensorId::grad_q);
  a.grad_k.data = data(TensorId::grad_k);
  a.grad_v.data = data(TensorId::grad_v);
  a.lse.data = reinterpret_cast<float*>(data(TensorId::lse));
  const auto option = [&](OptionId id) -> void* {
    return plan_.problem.uses(id, pass) ? address(args.option(id)) : nullptr;
  };
  KernelOptions& o = a.options;
  o.bias.data = option(OptionId::bias);
  o.grad_bias.data = option(OptionId::grad_bias);
  o.mask.data = option(OptionId::mask);
  o.alibi = static_cast<const float*>(option(OptionId::alibi));
  o.sink = static_cast<const float*>(option(OptionId::sink));
  o.grad_sink = static_cast<float*>(option(OptionId::grad_sink));
  o.rows_q.data = option(OptionId::rows_q);
  o.rows_k.data = option(OptionId::rows_k);
  o.pages.table = static_cast<const std::int32_t*>(option(OptionId::page_table));
  o.random = static_cast<const std::uint64_t*>(option(OptionId::random));
  KernelAppend& append = a.append;
  append.new_k.data = option(OptionId::new_k);
  append.new_v.data = option(OptionId::new_v);
  append.rotated_q.data = option(OptionId::rotated_q);
  append.cosine = static_cast<const float*>(option(OptionId::cosine));
  append.sine = static_cast<const float*>(option(OptionId::sine));
  if (workspace != nullptr) {
    const auto past = reinterpret_cast<std::uintptr_t>(workspace) % kRegionBytes;
    std::byte* const start = workspace + (kRegionBytes - past) % kRegionBytes;
    for (const Region& region : plan_.regions(pass))
      (a.*region.rows).data = reinterpret_cast<float*>(start + region.offset);
  }
  return a;
}

Status Runner::enqueue(Pass pass, const RunArgs& args, std::byte* workspace,
                       hipStream_t stream) const {
  const KernelArguments arguments = bind(pass, args, workspace);
  for (const Step& step : plan_.steps(pass))
    if (step.blocks > 0)
      CROSSFLASH_TRY(check(static_cast<hipError_t>(step.kernel->launch(arguments, stream)),
                           step.kernel->name));
  return {};
}

Status Runner::run(Pass pass, const RunArgs& args) {
  CROSSFLASH_TRY(check_buffers(pass, args));
  const CurrentDevice current(device_.ordinal());
  CROSSFLASH_TRY(current.status());
  const hipStream_t stream =
      args.stream != nullptr ? static_cast<hipStream_t>(args.stream) : device_.stream();
  if (args.workspace.handle != nullptr || plan_.workspace(pass) == 0)
    return enqueue(pass, args, args.workspace.handle != nullptr ? address(args.workspace) : nullptr,
                   stream);
  return workspace_->use(stream, [&] { return enqueue(pass, args, workspace_->data(), stream); });
}

}  // namespace crossflash::hip
