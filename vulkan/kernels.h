// SPDX-License-Identifier: MIT
// kernels.h: the compiled shaders with their interfaces: which tensor is bound where, and which
// option's buffer. The list here
// and the shader's own are held against each other by a test that reads the SPIR-V.
#pragma once

#include <span>

#include "vulkan/pipeline.h"
#include "vulkan/schedule.h"

namespace crossflash::vulkan {

struct TensorBinding {
  std::uint32_t binding;
  TensorId tensor;
};

// What a kernel of the direct variant binds beside the parameter block and the workspace.
std::span<const TensorBinding> tensor_bindings(KernelId id);
// And where it is built with options.
std::span<const OptionId> option_bindings(KernelId id);
constexpr std::uint32_t option_binding(OptionId id) {
  return CF_BIND_BIAS + static_cast<std::uint32_t>(id);
}

// The kernel for tensors as they lie, or for the arena; without options or, as the gradients of
// options always are, with.
const Kernel& attention_kernel(KernelId id, bool arena, bool options);
const Kernel& copy_kernel();
const Kernel& append_kernel();
// All of them, for tests.
std::span<const Kernel* const> all_kernels();

}  // namespace crossflash::vulkan
