// SPDX-License-Identifier: MIT
// half.h: f16 and bf16 on the host: conversion to and from f32, to nearest even; and `round_to`,
// what a number becomes when it passes through a type.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "crossflash/crossflash.h"

namespace crossflash {

inline float f16_to_f32(std::uint16_t h) {
  const std::uint32_t sign = (h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1fu;
  const std::uint32_t mantissa = h & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline std::uint16_t f32_to_f16(float f) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [sign](std::uint32_t h) { return static_cast<std::uint16_t>(sign | h); };
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // rounds to 65536 or more: infinity
  if (magnitude < 0x38800000u) {                            // below 2^-14: subnormal
    // Adding 0.5 puts 2^-24 at the last mantissa bit, and the addition rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u);
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return with_sign((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

inline float bf16_to_f32(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}

inline std::uint16_t f32_to_bf16(float f) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline std::size_t dtype_size(crossflash_dtype dtype) { return dtype == CROSSFLASH_F32 ? 4 : 2; }

inline const char* dtype_name(crossflash_dtype dtype) {
  return dtype == CROSSFLASH_F32 ? "f32" : dtype == CROSSFLASH_F16 ? "f16" : "bf16";
}

// Element `index` of an array of `dtype`.
inline float load_element(crossflash_dtype dtype, const void* data, std::size_t index) {
  if (dtype == CROSSFLASH_F32) return static_cast<const float*>(data)[index];
  const std::uint16_t h = static_cast<const std::uint16_t*>(data)[index];
  return dtype == CROSSFLASH_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

inline void store_element(crossflash_dtype dtype, void* data, std::size_t index, float value) {
  if (dtype == CROSSFLASH_F32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<std::uint16_t*>(data)[index] =
        dtype == CROSSFLASH_F16 ? f32_to_f16(value) : f32_to_bf16(value);
  }
}

inline float round_to(crossflash_dtype dtype, float value) {
  if (dtype == CROSSFLASH_F32) return value;
  return dtype == CROSSFLASH_F16 ? f16_to_f32(f32_to_f16(value)) : bf16_to_f32(f32_to_bf16(value));
}

}  // namespace crossflash
