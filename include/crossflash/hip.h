/* SPDX-License-Identifier: MIT
 *
 * crossflash on a HIP program's own GPU, memory and streams. On an NVIDIA build hipStream_t is
 * cudaStream_t and device pointers are CUDA's, so that a CUDA program uses it as it stands.
 * Includes no header of either vendor: streams are void* here.
 *
 * A stream or memory of another device than the plan's is the caller's mistake and not noticed.
 * Runs allocate nothing and wait for nothing, so that the stream may be capturing a graph. A graph
 * keeps the pointers it was captured with: the caller's tensors, and the caller's or the plan's
 * workspace. The plan's orders the runs of all streams, but for runs inside of graphs; whoever lets
 * a graph run at the same time as other runs of the plan gives it a workspace of its own.
 */
#ifndef CROSSFLASH_HIP_H
#define CROSSFLASH_HIP_H

#include <stdio.h>

#include "crossflash/crossflash.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the GPU that hipSetDevice(ordinal) would make current. */
static inline crossflash_status crossflash_hip_device_open(int ordinal,
                                                           crossflash_device** device) {
  char backend[24];
  crossflash_device_options options = {sizeof(crossflash_device_options), 0, 0, 0};
  snprintf(backend, sizeof backend, "hip:%d", ordinal);
  options.backend = backend;
  return crossflash_device_open(&options, device);
}

/* Device memory of the caller's, from hipMalloc or within such. */
static inline crossflash_buffer crossflash_hip_buffer(const void* pointer) {
  crossflash_buffer buffer = {(void*)pointer, 0};
  return buffer;
}

#ifdef __cplusplus
}
#endif
#endif
