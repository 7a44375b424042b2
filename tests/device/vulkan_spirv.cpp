// SPDX-License-Identifier: MIT
// vulkan_spirv.cpp: host and shaders cannot drift apart. Every SPIR-V module of the library is
// read and its interface held against the host's: bindings, the layout of the parameter block and
// of the push constants, specialization constant ids.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>
#include <vector>

#include "common/shared/abi.h"
#include "vulkan/kernels.h"

namespace crossflash::vulkan {
namespace {

// The parts of a SPIR-V module that declare its interface (SPIR-V specification, chapter 3).
class Module {
 public:
  explicit Module(std::span<const std::uint32_t> words) {
    for (std::size_t at = 5; at < words.size();) {
      const std::uint32_t length = words[at] >> 16;
      read(words[at] & 0xffff, words.subspan(at + 1, length - 1));
      at += length;
    }
  }

  // Binding numbers of storage buffers, or of uniform blocks.
  std::set<std::uint32_t> bindings(bool storage) const {
    std::set<std::uint32_t> numbers;
    for (const auto& [variable, kind] : variables_) {
      const std::uint32_t type = pointees_.at(variable_types_.at(variable));
      const bool is_storage =
          kind == kStorageBuffer || (kind == kUniform && buffer_blocks_.contains(type));
      if ((kind == kStorageBuffer || kind == kUniform) && is_storage == storage)
        numbers.insert(bindings_.at(variable));
    }
    return numbers;
  }

  // Byte offsets of the scalars of the block in the given storage class, in order.
  std::vector<std::uint32_t> scalars(std::uint32_t storage_class) const {
    std::vector<std::uint32_t> offsets;
    for (const auto& [variable, kind] : variables_) {
      const std::uint32_t type = pointees_.at(variable_types_.at(variable));
      if (kind == storage_class && !buffer_blocks_.contains(type)) add_scalars(type, 0, &offsets);
    }
    return offsets;
  }

  const std::set<std::uint32_t>& constant_ids() const { return constant_ids_; }

  static constexpr std::uint32_t kUniform = 2, kPushConstant = 9, kStorageBuffer = 12;

 private:
  void read(std::uint32_t op, std::span<const std::uint32_t> w) {
    constexpr std::uint32_t kStruct = 30, kPointer = 32, kVariable = 59, kDecorate = 71,
                            kMemberDecorate = 72;
    constexpr std::uint32_t kSpecId = 1, kBufferBlock = 3, kBinding = 33, kOffset = 35;
    if (op == kStruct) structs_[w[0]] = {w.begin() + 1, w.end()};
    if (op == kPointer) pointees_[w[0]] = w[2];
    if (op == kVariable) {
      variable_types_[w[1]] = w[0];
      variables_[w[1]] = w[2];
    }
    if (op == kDecorate && w[1] == kBinding) bindings_[w[0]] = w[2];
    if (op == kDecorate && w[1] == kSpecId) constant_ids_.insert(w[2]);
    if (op == kDecorate && w[1] == kBufferBlock) buffer_blocks_.insert(w[0]);
    if (op == kMemberDecorate && w[2] == kOffset) offsets_[{w[0], w[1]}] = w[3];
  }

  void add_scalars(std::uint32_t type, std::uint32_t base, std::vector<std::uint32_t>* out) const {
    const auto members = structs_.find(type);
    if (members == structs_.end()) {
      out->push_back(base);
      return;
    }
    for (std::uint32_t n = 0; n < members->second.size(); ++n)
      add_scalars(members->second[n], base + offsets_.at({type, n}), out);
  }

  std::map<std::uint32_t, std::vector<std::uint32_t>> structs_;
  std::map<std::uint32_t, std::uint32_t> pointees_, variable_types_, variables_, bindings_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> offsets_;
  std::set<std::uint32_t> buffer_blocks_, constant_ids_;
};

// What a C++ struct of 4-byte scalars without holes looks like.
std::vector<std::uint32_t> packed(std::size_t bytes) {
  std::vector<std::uint32_t> offsets;
  for (std::uint32_t at = 0; at < bytes; at += 4) offsets.push_back(at);
  return offsets;
}

TEST(SpirvInterface, IsWhatTheHostBinds) {
  // Four kernels in four builds, the gradients of options in two, the copy and append.
  ASSERT_EQ(all_kernels().size(), 4u * 4 + 2u * 2 + 2);
  for (const Kernel* kernel : all_kernels()) {
    SCOPED_TRACE(kernel->name);
    const Module module(kernel->spirv);
    EXPECT_EQ(module.bindings(true), std::set<std::uint32_t>(kernel->storage_bindings.begin(),
                                                             kernel->storage_bindings.end()));
    const bool uniform = kernel->uniform_bytes != 0;
    EXPECT_EQ(module.bindings(false),
              uniform ? std::set<std::uint32_t>{CF_BIND_PROBLEM} : std::set<std::uint32_t>{});
    EXPECT_EQ(module.scalars(Module::kPushConstant), packed(kernel->push_bytes));
    EXPECT_EQ(module.scalars(Module::kUniform), packed(kernel->uniform_bytes));
    const std::uint32_t last = kernel == &copy_kernel()     ? CF_SPEC_SCATTER
                               : kernel == &append_kernel() ? CF_SPEC_DTYPE
                                                            : CF_SPEC_FEATURES;
    for (const std::uint32_t id : module.constant_ids()) EXPECT_LE(id, last);
    EXPECT_TRUE(module.constant_ids().contains(CF_SPEC_THREADS));
  }
}

}  // namespace
}  // namespace crossflash::vulkan
