// SPDX-License-Identifier: MIT
// pipeline.h: compute kernels and their compiled pipelines. A pipeline is made when first asked for
// and kept until the device closes. Invariant: what get() gives is complete and never null.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "vulkan/context.h"

namespace crossflash::vulkan {

// A compiled shader with entry point main and its interface, all in descriptor set 0.
struct Kernel {
  const char* name;  // unique
  std::span<const std::uint32_t> spirv;
  std::vector<std::uint32_t> storage_bindings;
  std::uint32_t uniform_bytes = 0;  // of the uniform buffer at binding 0; 0: there is none
  std::uint32_t push_bytes = 0;
};

struct Pipeline {
  std::string name;  // of its kernel
  std::vector<std::uint32_t> storage_bindings;
  std::uint32_t uniform_bytes = 0;
  OwnedSetLayout set_layout;
  OwnedPipelineLayout layout;
  OwnedPipeline pipeline;
};

class Pipelines {
 public:
  explicit Pipelines(Context& context) : context_(context) {}
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  // `constants[i]` is the value of the specialization constant with id i. From any thread; two
  // that want the same new pipeline may both compile it, and one result is kept.
  Status get(const Kernel& kernel, std::span<const std::uint32_t> constants, const Pipeline** out);

 private:
  using Key = std::pair<std::string, std::vector<std::uint32_t>>;
  const Pipeline* find(const Key& key);

  Context& context_;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<const Pipeline>> pipelines_;
};

}  // namespace crossflash::vulkan
