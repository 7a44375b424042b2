// SPDX-License-Identifier: MIT
// tensor_file.cpp: see tensor_file.h.
#include "tools/tensor_file.h"

#include <algorithm>

#include "common/half.h"
#include "tools/exit_code.h"

namespace crossflash::tool {

TensorFile read_tensor(const std::string& name, const std::string& path, Layout layout) {
  NpyArray array = read_npy(path);
  if (array.shape.size() != 4)
    throw bad_input("{}: has {} dimensions, {}; {} has 4: {}", path, array.shape.size(),
                    format_shape(array.shape), name,
                    layout == Layout::bshd ? "[batch, seq, heads, d]" : "[batch, heads, seq, d]");
  TensorFile tensor{name,           path,           array.type,     array.shape[0],
                    array.shape[1], array.shape[2], array.shape[3], std::move(array.data)};
  if (layout == Layout::bhsd) std::swap(tensor.seq, tensor.heads);
  return tensor;
}

crossflash_dtype to_dtype(NpyType type) {
  return type == NpyType::f16 ? CROSSFLASH_F16 : CROSSFLASH_F32;
}

NpyType to_npy_type(crossflash_dtype dtype) {
  return dtype == CROSSFLASH_F16 ? NpyType::f16 : NpyType::f32;
}

std::vector<std::byte> convert(const std::vector<std::byte>& data, crossflash_dtype from,
                               crossflash_dtype to) {
  if (from == to) return data;
  const std::size_t count = data.size() / dtype_size(from);
  std::vector<std::byte> out(count * dtype_size(to));
  for (std::size_t i = 0; i < count; ++i)
    store_element(to, out.data(), i, load_element(from, data.data(), i));
  return out;
}

std::vector<std::int64_t> shape_of(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                                   std::int64_t width, Layout layout) {
  if (layout == Layout::bhsd) std::swap(seq, heads);
  return {batch, seq, heads, width};
}

crossflash_strides strides_of(const TensorFile& t, Layout layout) {
  if (layout == Layout::bshd) return {};  // the library's own order
  // A stride past an axis without elements still has to be positive.
  const auto positive = [](std::int64_t stride) { return std::max<std::int64_t>(stride, 1); };
  return {positive(t.heads * t.seq * t.width), positive(t.width), positive(t.seq * t.width), 1};
}

void check_same(const TensorFile& a, const TensorFile& b, Axes axes) {
  const auto check = [&](bool wanted, const char* axis, std::int64_t in_a, std::int64_t in_b) {
    if (wanted && in_a != in_b)
      throw bad_input("{}: {} has {} {}, but {} ({}) has {}", a.path, a.name, axis, in_a, b.name,
                      b.path, in_b);
  };
  check(axes.batch, "batch", a.batch, b.batch);
  check(axes.seq, "sequence length", a.seq, b.seq);
  check(axes.heads, "head count", a.heads, b.heads);
  check(axes.width, "head size", a.width, b.width);
}

}  // namespace crossflash::tool
