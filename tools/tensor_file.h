// SPDX-License-Identifier: MIT
// tensor_file.h: a .npy file as one of attention's four-axis tensors, and results as such files.
// The axes are named here once, so that a mismatch is reported in words.
#pragma once

#include <string>

#include "common/case_line.h"
#include "tools/npy.h"

namespace crossflash::tool {

struct TensorFile {
  std::string name;  // "q"
  std::string path;
  NpyType type = NpyType::f32;
  std::int64_t batch = 0, seq = 0, heads = 0, width = 0;
  std::vector<std::byte> data;  // as in the file, in the file's order of axes
};

TensorFile read_tensor(const std::string& name, const std::string& path, Layout layout);

crossflash_dtype to_dtype(NpyType type);
// float16 for f16; float32 for f32 and for bf16, which .npy has no type for.
NpyType to_npy_type(crossflash_dtype dtype);

// The elements of an array in another type, each rounded to nearest even.
std::vector<std::byte> convert(const std::vector<std::byte>& data, crossflash_dtype from,
                               crossflash_dtype to);

std::vector<std::int64_t> shape_of(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                                   std::int64_t width, Layout layout);
crossflash_strides strides_of(const TensorFile& tensor, Layout layout);

// Fails if the two differ along any of the axes asked for.
struct Axes {
  bool batch, seq, heads, width;
};
void check_same(const TensorFile& a, const TensorFile& b, Axes axes);

}  // namespace crossflash::tool
