// SPDX-License-Identifier: MIT
// append.h: the pass that puts new rows into a cache, on tensors as they lie: a dispatch each for
// keys, values and, where they are rotated, queries. Needs no workspace.
#pragma once

#include <memory>

#include "common/backend.h"
#include "vulkan/caps.h"
#include "vulkan/pipeline.h"
#include "vulkan/recording_pool.h"

namespace crossflash::vulkan {

// Why a device with these limits cannot append, where a binding covers each tensor.
Status check_append(const Problem& problem, const Caps& caps);

class Appender {
 public:
  static Status create(Context& context, Pipelines& pipelines, const Problem& problem,
                       const Caps& caps, std::unique_ptr<Appender>* out);
  // `unused` is bound for what the problem does without.
  Status run(const RunArgs& args, crossflash_buffer unused);

 private:
  Appender(Context& context, const Problem& problem, const Caps& caps);

  const Problem& problem_;
  const Caps& caps_;
  const Pipeline* pipeline_ = nullptr;
  RecordingPool recordings_;
};

}  // namespace crossflash::vulkan
