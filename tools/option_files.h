// SPDX-License-Identifier: MIT
// option_files.h: the options of `run` that come as files or go to them: bias, ALiBi slopes, sinks,
// a mask, lengths or offsets of sequences, a page table. Whatever a file says is checked here,
// against the problem and against the other files, before any device is opened.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crossflash/crossflash.hpp"
#include "tools/npy.h"

namespace crossflash::tool {

struct OptionFiles {
  std::string bias, alibi, sink, mask;
  std::string cu_seqlens_q, cu_seqlens_k, seqlens_q, seqlens_k, page_table;
  bool grad_bias = false;

  void add_to(CLI::App& app);
  // Whether batches of the files are not those of the problem.
  bool packed_q() const { return !cu_seqlens_q.empty(); }
  bool packed_k() const { return !cu_seqlens_k.empty(); }
  bool paged() const { return !page_table.empty(); }
};

// The files' contents as the library takes them; what is not given is empty.
struct OptionInputs {
  std::vector<std::byte> bias, alibi, sink, mask, rows_q, rows_k, page_table;
  crossflash_dtype bias_dtype = CROSSFLASH_F32;
  std::optional<NpyArray> grad_bias, grad_sink;  // type and shape, if they are asked for

  // Reads and checks the files. The problem holds what the tensors' files say (of packed sequences
  // batch 1 and seq the total; of paged keys what k's file says) and becomes what it is with the
  // options.
  OptionInputs(const OptionFiles& files, crossflash_problem* problem);

 private:
  void read_bias(const OptionFiles& files, crossflash_problem* problem);
  void read_mask(const std::string& path, crossflash_problem* problem);
};

// They in the device's memory, and room for gradients. Must not outlive the device.
class OptionBuffers {
 public:
  OptionBuffers(const Device& device, const OptionInputs& inputs, crossflash_args* args);

  // dbias.npy and dsink.npy, as far as they were asked for.
  std::vector<std::pair<std::string, NpyArray>> gradients() const;

 private:
  const Buffer& add(const Device& device, std::size_t bytes, crossflash_buffer* where);

  const OptionInputs& inputs_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  const Buffer* grad_bias_ = nullptr;
  const Buffer* grad_sink_ = nullptr;
};

}  // namespace crossflash::tool
