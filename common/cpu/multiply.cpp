// SPDX-License-Identifier: MIT
// multiply.cpp: the inner loop, compiled once for the baseline of the architecture and, on x86,
// once more for AVX2 with FMA; chosen at run time, so that a binary built on one machine runs on
// another.
#include "common/cpu/multiply.h"

#include <cstddef>

namespace crossflash::cpu {
namespace {

// Four steps of depth at once, so that an element of C is loaded and stored once for four products.
// (always_inline: it must take on the instruction set of its caller.)
[[gnu::always_inline]] inline void multiply_rows(const Product& p) {
  for (int r = 0; r < p.rows; ++r) {
    const float* a = p.a + static_cast<std::ptrdiff_t>(r) * p.a_stride;
    float* __restrict c = p.c + static_cast<std::ptrdiff_t>(r) * p.c_stride;
    int k = p.depth[r].begin;
    for (; k + 4 <= p.depth[r].end; k += 4) {
      const float* __restrict b0 = p.b + static_cast<std::ptrdiff_t>(k) * p.b_stride;
      const float* __restrict b1 = b0 + p.b_stride;
      const float* __restrict b2 = b1 + p.b_stride;
      const float* __restrict b3 = b2 + p.b_stride;
      const float a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
      for (int x = 0; x < p.columns; ++x) {
        float sum = c[x];
        sum += a0 * b0[x];
        sum += a1 * b1[x];
        sum += a2 * b2[x];
        sum += a3 * b3[x];
        c[x] = sum;
      }
    }
    for (; k < p.depth[r].end; ++k) {
      const float* __restrict b0 = p.b + static_cast<std::ptrdiff_t>(k) * p.b_stride;
      for (int x = 0; x < p.columns; ++x) c[x] += a[k] * b0[x];
    }
  }
}

void multiply_baseline(const Product& p) { multiply_rows(p); }

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_avx2(const Product& p) { multiply_rows(p); }

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
constexpr auto multiply_avx2 = multiply_baseline;

bool has_avx2() { return false; }
#endif

const bool use_avx2 = has_avx2();

}  // namespace

void multiply_add(const Product& product) {
  use_avx2 ? multiply_avx2(product) : multiply_baseline(product);
}

const char* instruction_set() { return use_avx2 ? "avx2+fma" : "baseline"; }

}  // namespace crossflash::cpu
