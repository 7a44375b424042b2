// SPDX-License-Identifier: MIT
// gemm.h: C = A B on blocks, by the very inner loop that the cpu backend multiplies with, so that
// fused and unfused differ in what they store and not in how well they multiply.
#pragma once

#include <cstddef>

namespace crossflash::bench {

// Element (r, c) is data[r * row + c * column]; a transposed matrix swaps the two.
struct Matrix {
  const float* data;
  std::ptrdiff_t row, column;

  const float* at(std::ptrdiff_t r, std::ptrdiff_t c) const { return data + r * row + c * column; }
  Matrix transposed() const { return {data, column, row}; }
};

// C (rows, columns) = A (rows, depth) B (depth, columns), or += if `add`; C is row-major.
// One thread's work.
void gemm(Matrix a, Matrix b, float* c, std::ptrdiff_t c_row, int rows, int columns, int depth,
          bool add);

}  // namespace crossflash::bench
