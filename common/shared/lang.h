// SPDX-License-Identifier: MIT
// lang.h: the only file that knows which language compiles it. The other headers of this folder
// include it (or each other) and nothing else, and keep to what C++, HIP and GLSL have in common:
// scalars, plain structs of them, if, for, ?:, functions that take and return values. No pointers,
// references, templates, recursion or default arguments; include guards, since glslc has no
// `#pragma once`. GLSL gets float; C++ and HIP get the same text in float and in double.
#ifndef CROSSFLASH_SHARED_LANG_H
#define CROSSFLASH_SHARED_LANG_H

#ifdef GL_core_profile
#define CF_GLSL 1
#endif

#ifdef CF_GLSL

#define CF_FN
#define CF_CONST const
#define CF_OUT(type, name) out type name
#define CF_BEGIN
#define CF_END

void cf_mulhilo(uint a, uint b, out uint hi, out uint lo) { umulExtended(a, b, hi, lo); }
float cf_exp2(float x) { return exp2(x); }
float cf_log2(float x) { return log2(x); }
// GLSL's own tanh may be off by any amount near 0: there the odd polynomial that interpolates it at
// Chebyshev's points of [0, 0.65], to 1e-8.
float cf_tanh(float x) {
  const float a = abs(x);
  if (a < 0.65) {
    const float z = x * x;
    float y = 0.0022149028 * z - 0.0082724569;
    y = y * z + 0.0217461865;
    y = y * z - 0.0539563484;
    y = y * z + 0.1333329082;
    y = y * z - 0.3333333433;
    return x + x * z * y;
  }
  const float y = 1.0 - 2.0 / (exp2(min(a, 20.0) * 2.8853900817779268) + 1.0);
  return x < 0.0 ? -y : y;
}
// Infinity is made and recognised by its bits: without float controls a shader compiler may assume
// that there is none.
float cf_neg_inf() { return uintBitsToFloat(0xff800000u); }
bool cf_is_neg_inf(float x) { return floatBitsToUint(x) == 0xff800000u; }
uint cf_float_bits(float x) { return floatBitsToUint(x); }
float cf_bits_float(uint x) { return uintBitsToFloat(x); }

#else

#include <bit>
#include <cmath>
#include <limits>

#if defined(__HIP__) || defined(__CUDACC__)
#define CF_FN __host__ __device__ inline
#else
#define CF_FN inline
#endif
#define CF_CONST constexpr
#define CF_OUT(type, name) type& name
#define CF_BEGIN namespace crossflash::shared {
#define CF_END }

CF_BEGIN
using uint = unsigned int;
struct uvec4 {
  uint x, y, z, w;
  CF_FN uvec4(uint a, uint b, uint c, uint d) : x(a), y(b), z(c), w(d) {}
};
CF_FN void cf_mulhilo(uint a, uint b, uint& hi, uint& lo) {
  const unsigned long long p = static_cast<unsigned long long>(a) * b;
  hi = static_cast<uint>(p >> 32);
  lo = static_cast<uint>(p);
}
CF_FN float cf_exp2(float x) { return std::exp2(x); }
CF_FN double cf_exp2(double x) { return std::exp2(x); }
CF_FN float cf_log2(float x) { return std::log2(x); }
CF_FN double cf_log2(double x) { return std::log2(x); }
CF_FN float cf_tanh(float x) { return std::tanh(x); }
CF_FN double cf_tanh(double x) { return std::tanh(x); }
CF_FN float cf_neg_inf() { return -std::numeric_limits<float>::infinity(); }
CF_FN bool cf_is_neg_inf(float x) { return x == -std::numeric_limits<float>::infinity(); }
CF_FN uint cf_float_bits(float x) { return std::bit_cast<uint>(x); }
CF_FN float cf_bits_float(uint bits) { return std::bit_cast<float>(bits); }
CF_END

#endif
#endif
