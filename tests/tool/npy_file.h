// SPDX-License-Identifier: MIT
// npy_file.h: the tests' own .npy writer and reader, written from the format's description and not
// shared with the program, so that both must be right about it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crossflash/crossflash.h"

namespace crossflash::tool_test {

using Shape = std::vector<std::int64_t>;

// Magic, version, length and this header text, padded as NumPy does.
std::string npy_start(const std::string& header, int major = 1);
std::string npy_header(const std::string& descr, const Shape& shape);

// A whole file with these values in the type, f32 or f16.
std::string npy_bytes(const Shape& shape, const std::vector<float>& values,
                      crossflash_dtype dtype = CROSSFLASH_F32, int major = 1);

struct NpyFile {
  std::string header;  // the dictionary's text
  std::string data;

  std::vector<float> values(crossflash_dtype dtype) const;
  // Whether the dictionary says this type and shape.
  bool says(const std::string& descr, const Shape& shape) const;
};
// Throws if the file is none.
NpyFile read_npy_file(const std::string& path);

}  // namespace crossflash::tool_test
