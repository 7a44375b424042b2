// SPDX-License-Identifier: MIT
// gemm.cpp: see gemm.h. A block whose columns are not neighbours in memory is first copied, turned.
#include "bench/gemm.h"

#include <algorithm>
#include <array>
#include <vector>

#include "common/cpu/multiply.h"

namespace crossflash::bench {
namespace {

constexpr int kBlock = 64;     // rows and depth: A's block is 16 KiB
constexpr int kColumns = 256;  // B's block is 64 KiB

struct Dense {
  const float* data;
  int stride;
};

// Rows and columns of `m` from (r0, c0) as a row-major block; in place where it is one already.
Dense dense_block(Matrix m, int r0, int rows, int c0, int columns, std::vector<float>& copy) {
  if (m.column == 1) return {m.at(r0, c0), static_cast<int>(m.row)};
  copy.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r)
      copy[static_cast<std::size_t>(r * columns + c)] = *m.at(r0 + r, c0 + c);
  return {copy.data(), columns};
}

}  // namespace

void gemm(Matrix a, Matrix b, float* c, std::ptrdiff_t c_row, int rows, int columns, int depth,
          bool add) {
  if (!add)
    for (int r = 0; r < rows; ++r) std::fill_n(c + r * c_row, columns, 0.0f);
  thread_local std::vector<float> a_copy, b_copy;
  for (int k = 0; k < depth; k += kBlock) {
    const int k_count = std::min(kBlock, depth - k);
    std::array<cpu::Interval, kBlock> whole;
    whole.fill({0, k_count});
    for (int x = 0; x < columns; x += kColumns) {
      const int x_count = std::min(kColumns, columns - x);
      const Dense b_block = dense_block(b, k, k_count, x, x_count, b_copy);
      for (int r = 0; r < rows; r += kBlock) {
        const int r_count = std::min(kBlock, rows - r);
        const Dense a_block = dense_block(a, r, r_count, k, k_count, a_copy);
        cpu::multiply_add({a_block.data, a_block.stride, b_block.data, b_block.stride,
                           c + r * c_row + x, static_cast<int>(c_row), r_count, x_count,
                           whole.data()});
      }
    }
  }
}

}  // namespace crossflash::bench
