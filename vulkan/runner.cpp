// SPDX-License-Identifier: MIT
#include "vulkan/runner.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "common/half.h"
#include "vulkan/device.h"
#include "vulkan/kernels.h"
#include "vulkan/window.h"

namespace crossflash::vulkan {
namespace {

constexpr std::uint32_t kCopyThreads = 128;  // what every device allows

// How often a run binds, and how much.
class BindCounter : public Sink {
 public:
  explicit BindCounter(const VulkanPlan& plan) : plan_(plan) {}

  void copy(const CopyStep&) override {
    bound_.reset();
    add(copy_kernel());
  }
  void compute(const ComputeStep& step) override {
    if (bound_ == step.kernel) return;
    bound_ = step.kernel;
    add(attention_kernel(step.kernel, plan_.staged, plan_.options));
  }
  void barrier() override {}

  const Capacity& capacity() const { return capacity_; }

 private:
  void add(const Kernel& kernel) {
    ++capacity_.sets;
    capacity_.storage_buffers += static_cast<std::uint32_t>(kernel.storage_bindings.size());
    capacity_.uniform_buffers += kernel.uniform_bytes != 0 ? 1 : 0;
  }

  const VulkanPlan& plan_;
  std::optional<KernelId> bound_;
  Capacity capacity_{};
};

}  // namespace

// Records the steps of one run. The first failure is kept and ends the recording.
class Recorder : public Sink {
 public:
  Recorder(const Runner& runner, Pass pass, const RunArgs& args, crossflash_buffer workspace,
           std::uint64_t workspace_bytes, Recording& recording)
      : runner_(runner),
        plan_(runner.plan_),
        args_(args),
        workspace_(workspace),
        saved_(pass == Pass::backward ? plan_.arena_offset : 0),
        recording_(recording) {
    const Window window =
        make_window(CF_BIND_WORK, workspace, saved_, workspace_bytes - saved_, alignment());
    work_ = window.binding;
    work_skipped_ = static_cast<shared::uint>(window.skipped / 4);
    option_slice_.arena = work_skipped_;
  }

  const Status& status() const { return status_; }

  void copy(const CopyStep& step) override {
    if (!status_.ok()) return;
    bound_.reset();
    const Tensor& tensor = step.tensor;
    const auto size = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    const Window window =
        make_window(CF_BIND_TENSOR, buffer_of(step), static_cast<std::uint64_t>(step.first * size),
                    static_cast<std::uint64_t>(step.span * size), alignment());
    // Only the piece that is copied, so that copies which need no barrier do not overlap.
    const Window piece = make_window(CF_BIND_WORK, workspace_,
                                     saved_ + 4 * static_cast<std::uint64_t>(step.arena_first),
                                     4 * static_cast<std::uint64_t>(step.arena_span), alignment());
    const Pipeline& pipeline = *runner_.copy_[tensor.dtype][step.scatter ? 1 : 0];
    const Binding bindings[] = {piece.binding, window.binding};
    status_ = recording_.bind(pipeline, bindings);
    if (!status_.ok()) return;
    shared::cf_copy copy = step.copy;
    copy.tensor_base = static_cast<shared::uint>(window.skipped / static_cast<std::uint64_t>(size));
    copy.arena_base = static_cast<shared::uint>(piece.skipped / 4);
    const std::uint64_t groups = (step.elements + kCopyThreads - 1) / kCopyThreads;
    for (std::uint64_t first = 0; first < groups; first += plan_.caps.groups) {
      copy.first_group = static_cast<shared::uint>(first);
      recording_.push(&copy, sizeof copy);
      recording_.dispatch(
          static_cast<std::uint32_t>(std::min<std::uint64_t>(plan_.caps.groups, groups - first)));
    }
  }

  void compute(const ComputeStep& step) override {
    if (!status_.ok()) return;
    if (bound_ != step.kernel) bind(step);
    if (!status_.ok()) return;
    shared::cf_slice slice = step.slice;
    slice.dropout = args_.dropout;
    slice.base_delta += work_skipped_;
    slice.base_mend += work_skipped_;
    slice.base_state += work_skipped_;
    shared::uint* const bases[kTensorCount] = {
        &slice.base_q,      &slice.base_k,      &slice.base_v,
        &slice.base_o,      &slice.base_lse,    &slice.base_grad_o,
        &slice.base_grad_q, &slice.base_grad_k, &slice.base_grad_v};
    for (std::size_t n = 0; n < kTensorCount; ++n)
      *bases[n] += plan_.staged ? work_skipped_ : skipped_[n];
    if (plan_.options) {
      const struct {
        shared::cf_slice slice;
        shared::cf_option_slice option_slice;
      } both{slice, option_slice_};
      recording_.push(&both, sizeof both);
    } else {
      recording_.push(&slice, sizeof slice);
    }
    recording_.dispatch(step.groups);
  }

  void barrier() override {
    if (status_.ok()) recording_.barrier();
  }

 private:
  std::uint64_t alignment() const { return plan_.caps.alignment; }

  crossflash_buffer buffer_of(const CopyStep& step) const {
    if (step.id) return args_.buffer(*step.id);
    return step.option ? args_.option(*step.option) : workspace_;
  }

  void bind(const ComputeStep& step) {
    bound_ = step.kernel;
    const Pipeline& pipeline = *runner_.attention_[static_cast<std::size_t>(step.kernel)];
    std::array<Binding, 2 + kTensorCount + kOptionCount> bindings;
    std::size_t count = 0;
    Binding& block = bindings[count++];
    block.binding = CF_BIND_PROBLEM;
    block.buffer = runner_.blocks_->handle();
    block.offset = runner_.block_pitch_ * static_cast<VkDeviceSize>(step.block);
    block.range = pipeline.uniform_bytes;
    block.uniform = true;
    bindings[count++] = work_;
    if (!plan_.staged)
      for (const TensorBinding& tensor : tensor_bindings(step.kernel))
        bindings[count++] = bind_tensor(tensor);
    if (!plan_.staged && plan_.options)
      for (const OptionId option : option_bindings(step.kernel))
        bindings[count++] = bind_option(option);
    status_ = recording_.bind(pipeline, std::span(bindings).first(count));
  }

  Binding bind_tensor(const TensorBinding& where) {
    const Tensor& tensor = plan_.problem.tensor(where.tensor);
    const std::size_t size = dtype_size(tensor.dtype);
    if (tensor.empty()) {  // never read, but something must be bound
      Binding binding = work_;
      binding.binding = where.binding;
      return binding;
    }
    const Window window =
        make_window(where.binding, args_.buffer(where.tensor), 0,
                    static_cast<std::uint64_t>(tensor.extent()) * size, alignment());
    skipped_[static_cast<std::size_t>(where.tensor)] =
        static_cast<shared::uint>(window.skipped / size);
    return window.binding;
  }

  Binding bind_option(OptionId id) {
    const auto extent = static_cast<std::uint64_t>(plan_.problem.option_extent(id));
    const std::uint64_t size = plan_.problem.option_element(id);
    if (extent == 0) {  // never read
      Binding binding = work_;
      binding.binding = option_binding(id);
      return binding;
    }
    const Window window =
        make_window(option_binding(id), args_.option(id), 0, extent * size, alignment());
    const auto n = static_cast<std::uint32_t>(id);
    const auto skipped =
        static_cast<shared::uint>(window.skipped / std::min<std::uint64_t>(size, 4));
    shared::uint* const skips[] = {&option_slice_.skips0, &option_slice_.skips1,
                                   &option_slice_.skips2};
    shared::uint& four = *skips[n / 4];
    const shared::uint shift = 8 * (n % 4);
    four = (four & ~(0xffu << shift)) | (skipped << shift);
    return window.binding;
  }

  const Runner& runner_;
  const VulkanPlan& plan_;
  const RunArgs& args_;
  const crossflash_buffer workspace_;
  const std::uint64_t saved_;  // bytes of the workspace before the arena
  Recording& recording_;
  Binding work_;
  shared::uint work_skipped_ = 0;
  std::array<shared::uint, kTensorCount> skipped_{};  // elements, of the tensors bound now
  shared::cf_option_slice option_slice_{};
  std::optional<KernelId> bound_;
  Status status_;
};

Status Runner::create(Context& context, const VulkanDevice& device, Pipelines& pipelines,
                      Transfer& transfer, VulkanPlan plan, std::shared_ptr<Buffer> workspace,
                      std::unique_ptr<Plan>* out) {
  std::unique_ptr<Runner> runner(
      new Runner(context, device, std::move(plan), std::move(workspace)));
  CROSSFLASH_TRY(runner->compile(pipelines));
  CROSSFLASH_TRY(runner->upload_blocks(transfer));
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const Problem& p = runner->plan_.problem;
    if (!p.runs(pass)) continue;
    BindCounter counter(runner->plan_);
    emit_steps(runner->plan_, pass, counter);
    auto& pool = runner->recordings_[static_cast<std::size_t>(pass)];
    pool = std::make_unique<RecordingPool>(context, counter.capacity());
    RecordingPool::Lease first;  // so that the first run allocates nothing either
    CROSSFLASH_TRY(pool->acquire(&first));
  }
  if (runner->plan_.problem.append.given)
    CROSSFLASH_TRY(Appender::create(context, pipelines, runner->plan_.problem, runner->plan_.caps,
                                    &runner->append_));
  *out = std::move(runner);
  return {};
}

Status Runner::compile(Pipelines& pipelines) {
  const Problem& p = plan_.problem;
  const auto get = [&](KernelId id) {
    const shared::uint dtype = plan_.staged ? shared::CF_F32 : static_cast<shared::uint>(p.dtype);
    return pipelines.get(attention_kernel(id, plan_.staged, plan_.options),
                         plan_.kernel(id).tile.constants(dtype, plan_.kernel(id).features),
                         &attention_[static_cast<std::size_t>(id)]);
  };
  if (p.forward) CROSSFLASH_TRY(get(KernelId::forward));
  if (p.backward)
    for (const KernelId id :
         {KernelId::backward_dot, KernelId::backward_dkv, KernelId::backward_dq})
      CROSSFLASH_TRY(get(id));
  if (p.option_extent(OptionId::grad_bias) > 0) CROSSFLASH_TRY(get(KernelId::backward_bias));
  if (p.option_extent(OptionId::grad_sink) > 0) CROSSFLASH_TRY(get(KernelId::backward_sink));
  if (!plan_.staged) return {};
  for (const crossflash_dtype dtype : {CROSSFLASH_F32, p.dtype})  // lse is f32 always
    for (const std::uint32_t scatter : {0u, 1u}) {
      const std::uint32_t constants[] = {kCopyThreads, static_cast<std::uint32_t>(dtype), scatter};
      CROSSFLASH_TRY(pipelines.get(copy_kernel(), constants, &copy_[dtype][scatter]));
    }
  return {};
}

Status Runner::upload_blocks(Transfer& transfer) {
  const VkDeviceSize alignment = std::max<VkDeviceSize>(
      context_.physical().properties.limits.minUniformBufferOffsetAlignment, 16);
  constexpr VkDeviceSize bytes = sizeof(shared::cf_problem) + sizeof(shared::cf_options);
  block_pitch_ = (bytes + alignment - 1) / alignment * alignment;
  CROSSFLASH_TRY(
      Buffer::create(context_, block_pitch_ * kKernelCount, Buffer::Kind::uniform, &blocks_));
  std::vector<std::byte> image(block_pitch_ * kKernelCount);
  for (std::size_t n = 0; n < kKernelCount; ++n) {
    std::byte* const at = image.data() + block_pitch_ * n;
    const KernelPlan& kernel = plan_.kernels[n];
    std::memcpy(at, &kernel.block, sizeof kernel.block);
    std::memcpy(at + sizeof kernel.block, &kernel.options, sizeof kernel.options);
  }
  return transfer.upload(*blocks_, 0, image.data(), image.size());
}

Status Runner::check_buffers(Pass pass, const RunArgs& args) const {
  for (std::size_t n = 0; n < kTensorCount; ++n) {
    const Tensor& tensor = plan_.problem.tensors[n];
    if (!plan_.problem.uses(static_cast<TensorId>(n), pass)) continue;
    CROSSFLASH_TRY(device_.check_stretch(
        kTensorNames[n], args.buffers[n],
        static_cast<std::uint64_t>(tensor.extent()) * dtype_size(tensor.dtype)));
  }
  for (std::size_t n = 0; n < kOptionCount; ++n) {
    const auto id = static_cast<OptionId>(n);
    if (plan_.problem.uses(id, pass))
      CROSSFLASH_TRY(
          device_.check_stretch(kOptionNames[n], args.option(id),
                                static_cast<std::uint64_t>(plan_.problem.option_extent(id)) *
                                    plan_.problem.option_element(id)));
  }
  return device_.check_stretch("workspace", args.workspace, plan_.workspace(pass));
}

Status Runner::run(Pass pass, const RunArgs& args) {
  CROSSFLASH_TRY(check_buffers(pass, args));
  if (pass == Pass::append)
    return append_->run(args, {reinterpret_cast<void*>(workspace_->handle()), 0});
  const Problem& p = plan_.problem;
  const bool sink_gradient = pass == Pass::backward && p.sink_gradient;  // written always
  if (p.batch == 0) return {};
  if (p.seq_q == 0 && (pass == Pass::forward || p.seq_k == 0) && !sink_gradient) return {};
  crossflash_buffer workspace = args.workspace;
  std::uint64_t bytes = plan_.workspace(pass);
  if (workspace.handle == nullptr || bytes == 0) {
    workspace = {reinterpret_cast<void*>(workspace_->handle()), 0};
    bytes = std::max<std::uint64_t>(bytes, 4);
  }
  RecordingPool::Lease recording;
  CROSSFLASH_TRY(recordings_[static_cast<std::size_t>(pass)]->acquire(&recording));
  CROSSFLASH_TRY(recording->begin());
  Recorder recorder(*this, pass, args, workspace, bytes, *recording);
  emit_steps(plan_, pass, recorder);
  CROSSFLASH_TRY(recorder.status());
  return recording->submit();
}

}  // namespace crossflash::vulkan
