// SPDX-License-Identifier: MIT
#include "vulkan/kernels.h"

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

Kernel make_kernel(const char* name, std::span<const std::uint32_t> spirv,
                   std::span<const TensorBinding> tensors) {
  Kernel kernel{name, spirv, {CF_BIND_WORK}, true, sizeof(shared::cf_slice)};
  for (const TensorBinding& tensor : tensors) kernel.storage_bindings.push_back(tensor.binding);
  return kernel;
}

struct Kernels {
  Kernel direct[kKernelCount] = {make_kernel("forward", spirv_forward, kForward),
                                 make_kernel("backward_dot", spirv_backward_dot, kDot),
                                 make_kernel("backward_dkv", spirv_backward_dkv, kDkv),
                                 make_kernel("backward_dq", spirv_backward_dq, kDq)};
  Kernel arena[kKernelCount] = {make_kernel("forward_arena", spirv_forward_arena, {}),
                                make_kernel("backward_dot_arena", spirv_backward_dot_arena, {}),
                                make_kernel("backward_dkv_arena", spirv_backward_dkv_arena, {}),
                                make_kernel("backward_dq_arena", spirv_backward_dq_arena, {})};
  Kernel copy{"copy", spirv_copy, {CF_BIND_WORK, CF_BIND_TENSOR}, false, sizeof(shared::cf_copy)};
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
  }
  return {};
}

const Kernel& attention_kernel(KernelId id, bool arena) {
  const auto n = static_cast<std::size_t>(id);
  return arena ? kernels().arena[n] : kernels().direct[n];
}

const Kernel& copy_kernel() { return kernels().copy; }

std::span<const Kernel* const> all_kernels() {
  static const std::vector<const Kernel*> all = [] {
    std::vector<const Kernel*> list;
    for (const Kernel& kernel : kernels().direct) list.push_back(&kernel);
    for (const Kernel& kernel : kernels().arena) list.push_back(&kernel);
    list.push_back(&kernels().copy);
    return list;
  }();
  return all;
}

}  // namespace crossflash::vulkan
