// SPDX-License-Identifier: MIT
// runtime.h: the names of the HIP runtime that the host side and its tests use. AMD builds take
// them from HIP. On NVIDIA builds each is CUDA's name of the same thing, since few HIP releases
// have headers that any CUDA of today compiles; -DCROSSFLASH_HIP_HEADERS=<folder> takes a user's
// own HIP instead. Invariant: nothing else in this folder knows which of the two vendors it is
// built for.
#pragma once

#include <string>

#if defined(CROSSFLASH_HIP_NVIDIA) && !defined(CROSSFLASH_HIP_OWN_HEADERS)
#include <cuda_runtime_api.h>

#define hipError_t cudaError_t
#define hipSuccess cudaSuccess
#define hipGetErrorString cudaGetErrorString
#define hipGetLastError cudaGetLastError

#define hipDeviceProp_t cudaDeviceProp
#define hipGetDevice cudaGetDevice
#define hipGetDeviceCount cudaGetDeviceCount
#define hipGetDeviceProperties cudaGetDeviceProperties
#define hipSetDevice cudaSetDevice
#define hipDriverGetVersion cudaDriverGetVersion
#define hipRuntimeGetVersion cudaRuntimeGetVersion

#define hipStream_t cudaStream_t
#define hipStreamCreateWithFlags cudaStreamCreateWithFlags
#define hipStreamDestroy cudaStreamDestroy
#define hipStreamIsCapturing cudaStreamIsCapturing
#define hipStreamCaptureStatus cudaStreamCaptureStatus
#define hipStreamCaptureStatusNone cudaStreamCaptureStatusNone
#define hipStreamNonBlocking cudaStreamNonBlocking
#define hipStreamSynchronize cudaStreamSynchronize
#define hipStreamWaitEvent cudaStreamWaitEvent
#define hipStreamBeginCapture cudaStreamBeginCapture
#define hipStreamCaptureModeThreadLocal cudaStreamCaptureModeThreadLocal
#define hipStreamEndCapture cudaStreamEndCapture
#define hipGraph_t cudaGraph_t
#define hipGraphDestroy cudaGraphDestroy
#define hipGraphExec_t cudaGraphExec_t
#define hipGraphExecDestroy cudaGraphExecDestroy
#define hipGraphInstantiateWithFlags cudaGraphInstantiateWithFlags
#define hipGraphLaunch cudaGraphLaunch

#define hipEvent_t cudaEvent_t
#define hipEventCreateWithFlags cudaEventCreateWithFlags
#define hipEventDestroy cudaEventDestroy
#define hipEventDisableTiming cudaEventDisableTiming
#define hipEventRecord cudaEventRecord

#define hipFree cudaFree
#define hipMalloc cudaMalloc
#define hipMemcpyAsync cudaMemcpyAsync
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define hipMemcpyHostToDevice cudaMemcpyHostToDevice
#else
#include <hip/hip_runtime_api.h>
#endif

namespace crossflash::hip {

#if defined(CROSSFLASH_HIP_NVIDIA)
constexpr const char* kVendor = "CUDA";
constexpr bool kNvidia = true;
#else
constexpr const char* kVendor = "HIP";
constexpr bool kNvidia = false;
#endif

// "sm_90", "gfx942".
inline std::string architecture_name(const hipDeviceProp_t& device) {
#if defined(CROSSFLASH_HIP_NVIDIA)
  return "sm_" + std::to_string(10 * device.major + device.minor);
#else
  const std::string name = device.gcnArchName;  // "gfx942:sramecc+:xnack-"
  return name.substr(0, name.find(':'));
#endif
}

// Shared memory that a block may ask for; on NVIDIA more than it gets unasked.
inline int shared_bytes(const hipDeviceProp_t& device) {
#if defined(CROSSFLASH_HIP_NVIDIA)
  return static_cast<int>(device.sharedMemPerBlockOptin);
#else
  return static_cast<int>(device.sharedMemPerBlock);
#endif
}

// "13.0" of what hipDriverGetVersion and hipRuntimeGetVersion write.
inline std::string version_text(int version) {
  const int major = kNvidia ? version / 1000 : version / 10000000;
  const int minor = kNvidia ? version % 1000 / 10 : version / 100000 % 100;
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace crossflash::hip
