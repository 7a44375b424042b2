// SPDX-License-Identifier: MIT
// device.h: what NVIDIA's and AMD's device languages name differently: exchange between the lanes
// of a wave, the fast exponential, votes. A wave's size comes from the architecture's traits.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "common/shared/lang.h"

#ifndef __CUDACC__
#include <hip/hip_runtime.h>
#endif

#define CF_DEVICE __device__ __forceinline__

namespace crossflash::hip {

CF_DEVICE float shuffle_xor(float x, int mask) {
#ifdef __CUDACC__
  return __shfl_xor_sync(0xffffffffu, x, mask);
#else
  return __shfl_xor(x, mask);
#endif
}

CF_DEVICE float shuffle(float x, int lane) {
#ifdef __CUDACC__
  return __shfl_sync(0xffffffffu, x, lane);
#else
  return __shfl(x, lane);
#endif
}

CF_DEVICE shared::uint shuffle(shared::uint x, int lane) {
#ifdef __CUDACC__
  return __shfl_sync(0xffffffffu, x, lane);
#else
  return __shfl(x, lane);
#endif
}

CF_DEVICE shared::uint shuffle_xor(shared::uint x, int mask) {
#ifdef __CUDACC__
  return __shfl_xor_sync(0xffffffffu, x, mask);
#else
  return __shfl_xor(x, mask);
#endif
}

// Whether it holds for a lane of this wave; the same answer in all of them.
CF_DEVICE bool any_lane(bool x) {
#ifdef __CUDACC__
  return __any_sync(0xffffffffu, x) != 0;
#else
  return __any(x) != 0;
#endif
}

// What lanes of this wave have stored in shared memory is there for all of them.
CF_DEVICE void wave_fence() {
#ifdef __CUDACC__
  __syncwarp();
#else
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
#endif
}

// 2^x to about 2 ulp; 2^-inf = 0. Results below f32's normal range become 0.
CF_DEVICE float exp2_fast(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return __builtin_amdgcn_exp2f(x);
#endif
}

// On AMD no instruction crosses: left to itself that compiler loads the operands of all steps of a
// product first, more than there are registers for.
CF_DEVICE void keep_order() {
#ifndef __CUDACC__
  __builtin_amdgcn_sched_barrier(0);
#endif
}

// The compiler computes x here, not later where it is used.
CF_DEVICE void stay(float& x) {
#ifdef __CUDACC__
  asm volatile("" : "+f"(x));
#else
  asm volatile("" : "+v"(x));
#endif
}

// a b, never fused with a sum.
CF_DEVICE float rounded_product(float a, float b) {
#ifdef __CUDACC__
  return __fmul_rn(a, b);
#else
  float product = a * b;
  stay(product);
  return product;
#endif
}

// x, but what is computed from it inside a loop stays there. Used on the lane's number, of which
// all addresses in shared memory are made: held over the loop they cost more registers than there
// are.
CF_DEVICE int fresh(int x) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(x));
#else
  asm volatile("" : "+v"(x));
#endif
  return x;
}

// The same for what all lanes of a wave have alike.
CF_DEVICE int fresh_uniform(int x) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(x));
#else
  asm volatile("" : "+s"(x));
#endif
  return x;
}

// fresh() where only NVIDIA, which has no scalar registers to hold x in, is short of registers.
CF_DEVICE int fresh_unless_scalar(int x) {
#ifdef __CUDACC__
  return fresh(x);
#else
  return x;
#endif
}

// A barrier of `threads` threads, whole waves, which all name it by the same small number; where
// there is none of this kind, of the whole block.
CF_DEVICE void sync_waves([[maybe_unused]] int number, [[maybe_unused]] int threads) {
#ifdef __CUDACC__
  asm volatile("bar.sync %0, %1;" ::"r"(number + 1), "r"(threads) : "memory");
#else
  __syncthreads();
#endif
}

// to[n] += x[n] in device memory, 16-byte aligned, whoever else adds there; nothing comes back.
CF_DEVICE void add_to_memory(float* to, const float (&x)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]),
               "f"(x[2]), "f"(x[3])
               : "memory");
#elif defined(__CUDACC__)
  for (int n = 0; n < 4; ++n) atomicAdd(to + n, x[n]);
#else
  for (int n = 0; n < 4; ++n) unsafeAtomicAdd(to + n, x[n]);
#endif
}

// x, which is the same in the whole wave: AMD's compiler is told so.
CF_DEVICE int same_in_wave(int x) {
#ifdef __CUDACC__
  return x;
#else
  return __builtin_amdgcn_readfirstlane(x);
#endif
}

// Whether a branch around more than a scaling of sums may change them. AMD's compiler keeps a
// second copy of the sums then, for which there are no registers.
#ifdef __CUDACC__
inline constexpr bool kLongBranches = true;
#else
inline constexpr bool kLongBranches = false;
#endif

// f(0) to f(kCount - 1), each with a constant: loops that index registers, where the compiler finds
// the code too long to write it out by itself.
template <int kCount, class F>
CF_DEVICE void write_out(F f) {
  [&]<int... n>(std::integer_sequence<int, n...>) { (f(std::integral_constant<int, n>{}), ...); }
  (std::make_integer_sequence<int, kCount>{});
}

CF_DEVICE float max_of(float a, float b) { return fmaxf(a, b); }

}  // namespace crossflash::hip
