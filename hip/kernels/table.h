// SPDX-License-Identifier: MIT
// table.h: makes the rows of launch.h's table from kernel templates: for one architecture, pass and
// element type a row for each head size of the pass, with and without score features, or one for
// all. A pass is a type that names its configurations and kernels (at the end of each kernel's
// file).
#pragma once

#include <array>

#include "hip/kernels/launch.h"
#include "hip/tile/element.h"

namespace crossflash::hip {

inline constexpr int kLargestHead = 512;

// "forward_f16_d128_128x64_general" as a constant.
struct VariantName {
  char text[64] = {};
  int length = 0;

  constexpr VariantName& add(const char* part) {
    while (*part != 0) text[length++] = *part++;
    return *this;
  }
  constexpr VariantName& add(int number) {
    if (number >= 10) add(number / 10);
    text[length++] = static_cast<char>('0' + number % 10);
    return *this;
  }
};

template <class P, class C>
inline constexpr VariantName kVariantName = [] {
  VariantName name;
  name.add(P::kName).add("_").add(kTypeName<typename C::T>).add("_d").add(C::kHead).add("_");
  name.add(C::kRows).add("x").add(C::kColumns);
  if (C::kGeneral) name.add("_general");
  return name;
}();

template <class C>
constexpr int slice_of() {
  if constexpr (requires { C::kSlice; })
    return C::kSlice;
  else
    return 0;
}

template <class P, class C>
int prepare_kernel() {
#ifdef __CUDACC__
  return static_cast<int>(cudaFuncSetAttribute(
      P::template kernel<C>(), cudaFuncAttributeMaxDynamicSharedMemorySize, C::kSharedBytes));
#else
  return static_cast<int>(
      hipFuncSetAttribute(reinterpret_cast<const void*>(P::template kernel<C>()),
                          hipFuncAttributeMaxDynamicSharedMemorySize, C::kSharedBytes));
#endif
}

template <class P, class C>
int launch_kernel(const KernelArguments& arguments, void* stream);

template <class Arch, class P, class C>
constexpr Variant variant_of() {
  return {.arch = Arch::kName,
          .name = kVariantName<P, C>.text,
          .pass = P::kPass,
          .dtype = kDtype<typename C::T>,
          .head = C::kHead,
          .general = C::kGeneral,
          .rows = C::kRows,
          .cols = C::kColumns,
          .slice = slice_of<C>(),
          .threads = C::kThreads,
          .shared_bytes = C::kSharedBytes,
          .prepare = &prepare_kernel<P, C>,
          .launch = &launch_kernel<P, C>};
}

template <class P, class C>
int launch_kernel(const KernelArguments& arguments, void* stream) {
  const Variant shape{.arch = "",
                      .name = "",
                      .pass = P::kPass,
                      .dtype = 0,
                      .head = C::kHead,
                      .general = C::kGeneral,
                      .rows = C::kRows,
                      .cols = C::kColumns,
                      .slice = slice_of<C>(),
                      .threads = C::kThreads,
                      .shared_bytes = C::kSharedBytes,
                      .prepare = nullptr,
                      .launch = nullptr};
  const auto grid = static_cast<unsigned>(blocks(shape, arguments));
  const auto kernel = P::template kernel<C>();
#ifdef __CUDACC__
  kernel<<<grid, C::kThreads, C::kSharedBytes, static_cast<cudaStream_t>(stream)>>>(arguments);
  return static_cast<int>(cudaGetLastError());
#else
  kernel<<<grid, C::kThreads, C::kSharedBytes, static_cast<hipStream_t>(stream)>>>(arguments);
  return static_cast<int>(hipGetLastError());
#endif
}

// Whether an architecture's traits have tiles for grad_all of this type.
template <class Arch, class T>
inline constexpr bool kHasGradAll = sizeof(T) == 2 && requires {
  Arch::grad_all_tile(kLargestHead, true);
};

template <class Arch, class P, class T>
inline constexpr bool kHasRows = kHasGradAll<Arch, T> || (P::kPass != KernelPass::grad_all &&
                                                          P::kPass != KernelPass::cast_grad_q);

// Whether a pass has a kernel for any options and this head size; the wide one takes what has none.
template <class Arch, class P, class T, int kHead>
constexpr bool has_general() {
  if constexpr (P::kPass == KernelPass::grad_q && requires { Arch::has_general_grad_q(4, 64); })
    return Arch::has_general_grad_q(static_cast<int>(sizeof(T)), kHead);
  else
    return true;
}

// The rows of one unit, smallest head size first.
template <class Arch, class P, class T, int... kHeads>
struct UnitTable {
  static constexpr int kCount = !kHasRows<Arch, P, T> ? 0
                                : P::kEverySize
                                    ? 1
                                    : ((has_general<Arch, P, T, kHeads>() ? 2 : 1) + ...);
  // Not constexpr: HIP would make it a constant of the device too, with these host functions in it.
  static inline constinit std::array<Variant, kCount> rows = [] {
    std::array<Variant, kCount> all{};
    int n = 0;
    if constexpr (kCount == 0) {
    } else if constexpr (P::kEverySize) {
      all[n++] = variant_of<Arch, P, typename P::template Config<Arch, T, kLargestHead, true>>();
    } else {
      const auto add = [&]<int kHead>() {
        all[n++] = variant_of<Arch, P, typename P::template Config<Arch, T, kHead, false>>();
        if constexpr (has_general<Arch, P, T, kHead>())
          all[n++] = variant_of<Arch, P, typename P::template Config<Arch, T, kHead, true>>();
      };
      (add.template operator()<kHeads>(), ...);
    }
    return all;
  }();
};

template <class Arch, class P, class T>
Variants variants() {
  return UnitTable<Arch, P, T, 64, 128, 256>::rows;
}

}  // namespace crossflash::hip
