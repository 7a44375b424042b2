// SPDX-License-Identifier: MIT
// npy_file.cpp: see npy_file.h.
#include "tests/tool/npy_file.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "common/half.h"
#include "tests/tool/program.h"

namespace crossflash::tool_test {
namespace {

std::string tuple(const Shape& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace

std::string npy_start(const std::string& header, int major) {
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  std::string text = header;
  while ((8 + length_bytes + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string start = "\x93NUMPY";
  start += static_cast<char>(major);
  start += '\0';
  for (std::size_t n = 0; n < length_bytes; ++n)
    start += static_cast<char>(text.size() >> (8 * n) & 0xff);
  return start + text;
}

std::string npy_header(const std::string& descr, const Shape& shape) {
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr,
                     tuple(shape));
}

std::string npy_bytes(const Shape& shape, const std::vector<float>& values, crossflash_dtype dtype,
                      int major) {
  std::string data(values.size() * dtype_size(dtype), '\0');
  for (std::size_t n = 0; n < values.size(); ++n) store_element(dtype, data.data(), n, values[n]);
  return npy_start(npy_header(dtype == CROSSFLASH_F32 ? "<f4" : "<f2", shape), major) + data;
}

std::vector<float> NpyFile::values(crossflash_dtype dtype) const {
  std::vector<float> out(data.size() / dtype_size(dtype));
  for (std::size_t n = 0; n < out.size(); ++n) out[n] = load_element(dtype, data.data(), n);
  return out;
}

bool NpyFile::says(const std::string& descr, const Shape& shape) const {
  return header.find(fmt::format("'descr': '{}'", descr)) != std::string::npos &&
         header.find("'fortran_order': False") != std::string::npos &&
         header.find(fmt::format("'shape': {}", tuple(shape))) != std::string::npos;
}

NpyFile read_npy_file(const std::string& path) {
  const std::string bytes = read_bytes(path);
  if (bytes.substr(0, 8) != std::string("\x93NUMPY\1\0", 8))
    throw std::runtime_error(path + " is not a .npy file of version 1.0");
  const std::size_t length =
      static_cast<unsigned char>(bytes.at(8)) + 256u * static_cast<unsigned char>(bytes.at(9));
  if ((10 + length) % 64 != 0 || bytes.at(10 + length - 1) != '\n')
    throw std::runtime_error(path + " has an unaligned header");
  return {bytes.substr(10, length), bytes.substr(10 + length)};
}

}  // namespace crossflash::tool_test
