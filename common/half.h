// SPDX-License-Identifier: MIT
// half.h: tensors' elements on the host: the conversions of shared/half.h by type, element access
// in an array of any type, and `round_to`, what a number becomes when it passes through a type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/shared/half.h"
#include "crossflash/crossflash.h"

namespace crossflash {

inline float f16_to_f32(std::uint16_t h) { return shared::cf_f16_decode(h); }
inline std::uint16_t f32_to_f16(float f) {
  return static_cast<std::uint16_t>(shared::cf_f16_encode(f));
}
inline float bf16_to_f32(std::uint16_t h) { return shared::cf_bf16_decode(h); }
inline std::uint16_t f32_to_bf16(float f) {
  return static_cast<std::uint16_t>(shared::cf_bf16_encode(f));
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
