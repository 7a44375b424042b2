// SPDX-License-Identifier: MIT
// element.h: the element types of tensors: f32, f16, bf16. The 16-bit ones are bare bits, converted
// by the device's own instructions where it has them, to nearest even.
#pragma once

#include "common/shared/abi.h"
#include "hip/tile/device.h"

namespace crossflash::hip {

struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};
using f32 = float;

template <class T>
inline constexpr shared::uint kDtype = shared::CF_F32;
template <>
inline constexpr shared::uint kDtype<f16> = shared::CF_F16;
template <>
inline constexpr shared::uint kDtype<bf16> = shared::CF_BF16;

template <class T>
inline constexpr const char* kTypeName = "f32";
template <>
inline constexpr const char* kTypeName<f16> = "f16";
template <>
inline constexpr const char* kTypeName<bf16> = "bf16";

CF_DEVICE float to_float(float x) { return x; }
CF_DEVICE float to_float(bf16 x) {
  return shared::cf_bits_float(static_cast<shared::uint>(x.bits) << 16);
}
CF_DEVICE float to_float(f16 x) {
#ifdef __CUDACC__
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  return static_cast<float>(__builtin_bit_cast(_Float16, x.bits));
#endif
}

// Two elements as they lie in memory, `low` first.
template <class T>
CF_DEVICE shared::uint pack2(float low, float high);

template <>
CF_DEVICE shared::uint pack2<f16>(float low, float high) {
#ifdef __CUDACC__
  shared::uint y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
#else
  const auto l = __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(low));
  const auto h = __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(high));
  return l | (static_cast<shared::uint>(h) << 16);
#endif
}

template <>
CF_DEVICE shared::uint pack2<bf16>(float low, float high) {
#ifdef __CUDACC__
  shared::uint y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
#else
  const auto l = __builtin_bit_cast(std::uint16_t, static_cast<__bf16>(low));
  const auto h = __builtin_bit_cast(std::uint16_t, static_cast<__bf16>(high));
  return l | (static_cast<shared::uint>(h) << 16);
#endif
}

// kCount neighbouring elements to memory that is aligned for all of them together.
template <int kCount, class T>
CF_DEVICE void store_run(T* to, const float* from) {
  if constexpr (sizeof(T) == 4) {
    struct alignas(kCount * sizeof(T)) Run {
      T x[kCount];
    } run;
#pragma unroll
    for (int x = 0; x < kCount; ++x) run.x[x] = from[x];
    *reinterpret_cast<Run*>(to) = run;
  } else if constexpr (kCount == 1) {
    to->bits = static_cast<std::uint16_t>(pack2<T>(from[0], 0.0f));
  } else {
    struct alignas(kCount * sizeof(T)) Run {
      shared::uint words[kCount / 2];
    } run;
#pragma unroll
    for (int x = 0; x < kCount / 2; ++x) run.words[x] = pack2<T>(from[2 * x], from[2 * x + 1]);
    *reinterpret_cast<Run*>(to) = run;
  }
}

}  // namespace crossflash::hip
