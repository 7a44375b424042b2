// SPDX-License-Identifier: MIT
#include "vulkan/kernels.h"

#include "common/shared/append.h"
#include "spirv.h"

namespace crossflash::vulkan {
namespace {

constexpr TensorBinding kForward[] = {{CF_BIND_Q, TensorId::q},
                                      {CF_BIND_K, TensorId::k},
                                      {CF_BIND_V, TensorId::v},
                                      {CF_BIND_O, TensorId::o},
                                      {CF_BIND_LSE, TensorId::lse}};
constexpr TensorBinding kDot[] = {{CF_BIND_O, TensorId::o}, {CF_BIND_GRAD_O, TensorId::grad_o}};
constexpr TensorBinding kDkv[] = {
    {CF_BIND_Q, TensorId::q},           {CF_BIND_K, TensorId::k},
    {CF_BIND_V, TensorId::v},           {CF_BIND_GRAD_O, TensorId::grad_o},
    {CF_BIND_GRAD_K, TensorId::grad_k}, {CF_BIND_GRAD_V, TensorId::grad_v},
    {CF_BIND_LSE, TensorId::lse}};
constexpr TensorBinding kDq[] = {
    {CF_BIND_Q, TensorId::q},           {CF_BIND_K, TensorId::k},
    {CF_BIND_V, TensorId::v},           {CF_BIND_GRAD_O, TensorId::grad_o},
    {CF_BIND_GRAD_Q, TensorId::grad_q}, {CF_BIND_LSE, TensorId::lse}};
constexpr TensorBinding kBias[] = {{CF_BIND_Q, TensorId::q},
                                   {CF_BIND_K, TensorId::k},
                                   {CF_BIND_V, TensorId::v},
                                   {CF_BIND_GRAD_O, TensorId::grad_o},
                                   {CF_BIND_LSE, TensorId::lse}};
constexpr TensorBinding kSink[] = {{CF_BIND_LSE, TensorId::lse}};

using O = OptionId;
static_assert(option_binding(O::rows_q) == CF_BIND_ROWS_Q &&
              option_binding(O::grad_sink) == CF_BIND_GRAD_SINK);
constexpr O kForwardOptions[] = {O::bias,   O::alibi,  O::sink,       O::mask,
                                 O::rows_q, O::rows_k, O::page_table, O::random};
constexpr O kDotOptions[] = {O::rows_q};
constexpr O kDkvOptions[] = {O::bias, O::alibi, O::mask, O::rows_q, O::rows_k, O::random};
constexpr O kDqOptions[] = {O::bias, O::alibi, O::sink, O::mask, O::rows_q, O::rows_k, O::random};
constexpr O kBiasOptions[] = {O::bias,   O::alibi,  O::mask,     O::rows_q,
                              O::rows_k, O::random, O::grad_bias};
constexpr O kSinkOptions[] = {O::sink, O::rows_q, O::grad_sink};

Kernel make_kernel(const char* name, std::span<const std::uint32_t> spirv,
                   std::span<const TensorBinding> tensors) {
  Kernel kernel{name, spirv, {CF_BIND_WORK}, sizeof(shared::cf_problem), sizeof(shared::cf_slice)};
  for (const TensorBinding& tensor : tensors) kernel.storage_bindings.push_back(tensor.binding);
  return kernel;
}

Kernel make_kernel(const char* name, std::span<const std::uint32_t> spirv,
                   std::span<const TensorBinding> tensors, std::span<const OptionId> options) {
  Kernel kernel = make_kernel(name, spirv, tensors);
  kernel.uniform_bytes += sizeof(shared::cf_options);
  kernel.push_bytes += sizeof(shared::cf_option_slice);
  for (const OptionId option : options) kernel.storage_bindings.push_back(option_binding(option));
  return kernel;
}

struct Kernels {
  std::vector<Kernel> direct = {make_kernel("forward", spirv_forward, kForward),
                                make_kernel("backward_dot", spirv_backward_dot, kDot),
                                make_kernel("backward_dkv", spirv_backward_dkv, kDkv),
                                make_kernel("backward_dq", spirv_backward_dq, kDq)};
  std::vector<Kernel> arena = {make_kernel("forward_arena", spirv_forward_arena, {}),
                               make_kernel("backward_dot_arena", spirv_backward_dot_arena, {}),
                               make_kernel("backward_dkv_arena", spirv_backward_dkv_arena, {}),
                               make_kernel("backward_dq_arena", spirv_backward_dq_arena, {})};
  std::vector<Kernel> options = {
      make_kernel("forward_options", spirv_forward_options, kForward, kForwardOptions),
      make_kernel("backward_dot_options", spirv_backward_dot_options, kDot, kDotOptions),
      make_kernel("backward_dkv_options", spirv_backward_dkv_options, kDkv, kDkvOptions),
      make_kernel("backward_dq_options", spirv_backward_dq_options, kDq, kDqOptions),
      make_kernel("backward_bias", spirv_backward_bias, kBias, kBiasOptions),
      make_kernel("backward_sink", spirv_backward_sink, kSink, kSinkOptions)};
  std::vector<Kernel> arena_options = {
      make_kernel("forward_arena_options", spirv_forward_arena_options, {}, {}),
      make_kernel("backward_dot_arena_options", spirv_backward_dot_arena_options, {}, {}),
      make_kernel("backward_dkv_arena_options", spirv_backward_dkv_arena_options, {}, {}),
      make_kernel("backward_dq_arena_options", spirv_backward_dq_arena_options, {}, {}),
      make_kernel("backward_bias_arena", spirv_backward_bias_arena, {}, {}),
      make_kernel("backward_sink_arena", spirv_backward_sink_arena, {}, {})};
  Kernel append{"append",
                spirv_append,
                {CF_BIND_SOURCE, CF_BIND_TARGET, CF_BIND_APPEND_ROWS_Q, CF_BIND_APPEND_ROWS_K,
                 CF_BIND_APPEND_PAGES, CF_BIND_COSINE, CF_BIND_SINE},
                0,
                sizeof(shared::cf_append)};
  Kernel copy{"copy", spirv_copy, {CF_BIND_WORK, CF_BIND_TENSOR}, 0, sizeof(shared::cf_copy)};
};

const Kernels& kernels() {
  static const Kernels all;
  return all;
}

}  // namespace

std::span<const TensorBinding> tensor_bindings(KernelId id) {
  switch (id) {
    case KernelId::forward:
      return kForward;
    case KernelId::backward_dot:
      return kDot;
    case KernelId::backward_dkv:
      return kDkv;
    case KernelId::backward_dq:
      return kDq;
    case KernelId::backward_bias:
      return kBias;
    case KernelId::backward_sink:
      return kSink;
  }
  return {};
}

std::span<const OptionId> option_bindings(KernelId id) {
  switch (id) {
    case KernelId::forward:
      return kForwardOptions;
    case KernelId::backward_dot:
      return kDotOptions;
    case KernelId::backward_dkv:
      return kDkvOptions;
    case KernelId::backward_dq:
      return kDqOptions;
    case KernelId::backward_bias:
      return kBiasOptions;
    case KernelId::backward_sink:
      return kSinkOptions;
  }
  return {};
}

const Kernel& attention_kernel(KernelId id, bool arena, bool options) {
  const Kernels& all = kernels();
  const auto& build =
      arena ? (options ? all.arena_options : all.arena) : (options ? all.options : all.direct);
  return build[static_cast<std::size_t>(id)];
}

const Kernel& copy_kernel() { return kernels().copy; }
const Kernel& append_kernel() { return kernels().append; }

std::span<const Kernel* const> all_kernels() {
  static const std::vector<const Kernel*> all = [] {
    std::vector<const Kernel*> list;
    const Kernels& k = kernels();
    for (const auto* build : {&k.direct, &k.arena, &k.options, &k.arena_options})
      for (const Kernel& kernel : *build) list.push_back(&kernel);
    list.push_back(&k.copy);
    list.push_back(&k.append);
    return list;
  }();
  return all;
}

}  // namespace crossflash::vulkan
