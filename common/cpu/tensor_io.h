// SPDX-License-Identifier: MIT
// tensor_io.h: rows of the user's tensors, of any type and with 64-bit strides, to and from tiles
// of f32. A tile is row-major and dense; rows and heads that were not asked for are not touched.
#pragma once

#include <cstdint>
#include <cstring>

#include "common/half.h"
#include "common/problem.h"
#include "common/shared/sequence.h"

namespace crossflash::cpu {

// Where the queries, or keys, of one sequence lie in the tensors of their side.
struct Rows {
  std::int64_t batch, first;            // row i is row first + i of this batch
  int count;                            // how many there are
  const std::int32_t* pages = nullptr;  // of paged keys: each page is a batch of its own
};

// A tensor in host memory.
struct HostTensor {
  const Tensor* tensor;
  std::byte* data;

  std::byte* row(const Rows& rows, std::int64_t h, std::int64_t i) const {
    std::int64_t b = rows.batch;
    i += rows.first;
    if (rows.pages != nullptr) {
      b = shared::cf_page(rows.pages[i / tensor->seq], static_cast<int>(tensor->batch));
      i %= tensor->seq;
    }
    const Strides& s = tensor->strides;
    const std::int64_t element = b * s.batch + h * s.head + i * s.seq;
    return data + element * static_cast<std::int64_t>(dtype_size(tensor->dtype));
  }
};

// Rows [begin, end) of a head; `tile` is (end - begin, width).
inline void load_rows(const HostTensor& from, const Rows& rows, std::int64_t h, int begin, int end,
                      float* tile) {
  const auto width = static_cast<std::size_t>(from.tensor->width);
  for (int i = begin; i < end; ++i, tile += width) {
    const std::byte* row = from.row(rows, h, i);
    switch (from.tensor->dtype) {  // once for a row, so that the loops inside stay free of it
      case CROSSFLASH_F32:
        std::memcpy(tile, row, width * sizeof(float));
        break;
      case CROSSFLASH_F16:
        for (std::size_t c = 0; c < width; ++c) tile[c] = load_element(CROSSFLASH_F16, row, c);
        break;
      case CROSSFLASH_BF16:
        for (std::size_t c = 0; c < width; ++c) tile[c] = load_element(CROSSFLASH_BF16, row, c);
        break;
    }
  }
}

inline void store_rows(const float* tile, const HostTensor& to, const Rows& rows, std::int64_t h,
                       int begin, int end) {
  const auto width = static_cast<std::size_t>(to.tensor->width);
  for (int i = begin; i < end; ++i, tile += width) {
    std::byte* row = to.row(rows, h, i);
    for (std::size_t c = 0; c < width; ++c) store_element(to.tensor->dtype, row, c, tile[c]);
  }
}

// 0 is the same bits in every type.
inline void clear_rows(const HostTensor& to, const Rows& rows, std::int64_t h, int begin, int end) {
  const std::size_t bytes =
      static_cast<std::size_t>(to.tensor->width) * dtype_size(to.tensor->dtype);
  for (int i = begin; i < end; ++i) std::memset(to.row(rows, h, i), 0, bytes);
}

// `columns` is (width, stride): row r of the tile becomes column r.
inline void transpose(const float* tile, int rows, int width, int stride, float* columns) {
  for (int c = 0; c < width; ++c)
    for (int r = 0; r < rows; ++r)
      columns[static_cast<std::ptrdiff_t>(c) * stride + r] =
          tile[static_cast<std::ptrdiff_t>(r) * width + c];
}

}  // namespace crossflash::cpu
