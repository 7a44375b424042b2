// SPDX-License-Identifier: MIT
// half.h: f16 and bf16 as the low 16 bits of a uint, to and from f32, rounded to nearest even. Done
// by integers: drivers differ in how packHalf2x16 rounds and whether 16-bit denormals survive.
#ifndef CROSSFLASH_SHARED_HALF_H
#define CROSSFLASH_SHARED_HALF_H
#include "abi.h"
CF_BEGIN

CF_FN float cf_f16_decode(uint h) {
  const uint sign = (h & 0x8000u) << 16;
  const uint exponent = h & 0x7c00u;
  const uint mantissa = h & 0x3ffu;
  const uint normal = ((h & 0x7fffu) << 13) + 0x38000000u;  // exponent bias 15 to 127
  const uint special = 0x7f800000u | (mantissa << 13);
  const uint subnormal = cf_float_bits(float(mantissa) * 5.9604644775390625e-8f);  // 2^-24
  return cf_bits_float(sign |
                       (exponent == 0u ? subnormal : (exponent == 0x7c00u ? special : normal)));
}

CF_FN uint cf_f16_encode(float x) {
  const uint bits = cf_float_bits(x);
  const uint sign = (bits >> 16) & 0x8000u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 65536 or more: infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal
    // Adding 0.5 puts 2^-24 at the last mantissa bit, and the addition rounds to nearest even.
    return sign | (cf_float_bits(cf_bits_float(magnitude) + 0.5f) - 0x3f000000u);
  }
  return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
}

CF_FN float cf_bf16_decode(uint h) { return cf_bits_float(h << 16); }

CF_FN uint cf_bf16_encode(float x) {
  const uint bits = cf_float_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return ((bits >> 16) | 0x40u) & 0xffffu;  // NaN
  return ((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16) & 0xffffu;
}

// Element types by number, as in crossflash_dtype; not for CF_F32.
CF_FN float cf_decode16(uint dtype, uint h) {
  return dtype == CF_F16 ? cf_f16_decode(h) : cf_bf16_decode(h);
}
CF_FN uint cf_encode16(uint dtype, float x) {
  return dtype == CF_F16 ? cf_f16_encode(x) : cf_bf16_encode(x);
}

CF_END
#endif
