// SPDX-License-Identifier: MIT
// multiply.h: the one matrix product that every product of attention is made of here.
#pragma once

namespace crossflash::cpu {

struct Interval {
  int begin, end;
};

// C (rows, columns) += A (rows, depth) B (depth, columns), row-major, each with its row stride. Row
// r takes depth[r] only, and neither A's nor B's values outside of it are touched: what a query
// cannot see may be NaN. Each element is one sum in order of depth.
struct Product {
  const float* a;
  int a_stride;
  const float* b;
  int b_stride;
  float* c;
  int c_stride;
  int rows, columns;
  const Interval* depth;  // (rows)
};

void multiply_add(const Product& product);

// "avx2+fma" or "baseline": the instructions multiply_add was compiled for on this processor.
const char* instruction_set();

}  // namespace crossflash::cpu
