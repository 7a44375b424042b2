// SPDX-License-Identifier: MIT
// npy.h: arrays in NumPy's .npy format (versions 1, 2 and 3), little-endian and in C order: float32
// or float16, where indices are expected int32 or int64, where truth values are bool or uint8. A
// file is read only if every byte of it is accounted for; anything else is a Failure that names the
// file and the fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crossflash::tool {

enum class NpyType { f32, f16, u8, i32, i64 };

const char* npy_type_name(NpyType type);  // "float32", "float16", "uint8", "int32", "int64"
std::size_t npy_type_size(NpyType type);

struct NpyArray {
  NpyType type = NpyType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

// "[1, 512, 12, 32]".
std::string format_shape(std::span<const std::int64_t> shape);

// What a file is expected to hold.
enum class NpyKind { floats, indices, bits };
NpyArray read_npy(const std::string& path, NpyKind kind = NpyKind::floats);
// The bytes before the data: magic, version 1.0 and the padded header.
std::string npy_prefix(NpyType type, std::span<const std::int64_t> shape);

// What stands in the header's dictionary; `path` is for the Failure.
struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};
NpyHeader parse_npy_header(std::string_view text, const std::string& path);

}  // namespace crossflash::tool
