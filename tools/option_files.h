// SPDX-License-Identifier: MIT
// option_files.h: the options of `run` that come as files or go to them: bias, ALiBi slopes, sinks,
// a mask, lengths or offsets of sequences, a page table. Whatever a file says is checked here,
// against the problem and against the other files, before any device is opened.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
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

// The files' contents as the library takes them.
class OptionInputs {
 public:
  // Reads and checks the files. The problem holds what the tensors' files say (of packed sequences
  // batch 1 and seq the total; of paged keys what k's file says) and becomes what it is with the
  // options.
  OptionInputs(const OptionFiles& files, crossflash_problem* problem);

  // Uploads them and makes room for gradients; the buffers live as long as this does.
  void upload(const Device& device, const crossflash_problem& problem, crossflash_args* args);
  // dbias.npy and dsink.npy, as far as they were asked for.
  std::vector<std::pair<std::string, NpyArray>> gradients() const;

 private:
  std::vector<std::byte> bias_, alibi_, sink_, mask_, rows_q_, rows_k_, page_table_;
  std::optional<NpyArray> grad_bias_, grad_sink_;  // type and shape
  crossflash_dtype bias_dtype_ = CROSSFLASH_F32;
  std::vector<Buffer> buffers_;
  const Buffer* grad_bias_buffer_ = nullptr;
  const Buffer* grad_sink_buffer_ = nullptr;
};

}  // namespace crossflash::tool
