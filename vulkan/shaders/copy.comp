#version 450
// SPDX-License-Identifier: MIT
// copy.comp: moves a window of a tensor to or from the arena, where it lies compact and in f32. So a
// device with few bindings, or bindings smaller than the tensors, runs the same kernels on pieces:
// gather the piece's windows, compute in the arena, scatter the results. Words that are no f32 go
// as such, bit by bit. One element for each invocation.
#extension GL_GOOGLE_include_directive : require
#include "../../common/shared/abi.h"
#include "../../common/shared/half.h"

layout(local_size_x_id = CF_SPEC_THREADS) in;
layout(constant_id = CF_SPEC_THREADS) const uint THREADS = 128;
layout(constant_id = CF_SPEC_DTYPE) const uint DTYPE = 0;
layout(constant_id = CF_SPEC_SCATTER) const uint SCATTER = 0;

layout(push_constant) uniform Copy { cf_copy copy; };
layout(std430, set = 0, binding = CF_BIND_WORK) buffer Work { uint work[]; };
layout(std430, set = 0, binding = CF_BIND_TENSOR) buffer Tensor { uint tensor[]; };

void main() {
  uint n = (copy.first_group + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationIndex;
  const uint x3 = n % copy.count3;
  n /= copy.count3;
  const uint x2 = n % copy.count2;
  n /= copy.count2;
  const uint x1 = n % copy.count1;
  const uint x0 = n / copy.count1;
  if (x0 >= copy.count0) return;
  const uint t = copy.tensor_base + x0 * copy.tensor0 + x1 * copy.tensor1 + x2 * copy.tensor2 + x3;
  const uint a = copy.arena_base + x0 * copy.arena0 + x1 * copy.arena1 + x2 * copy.arena2 + x3;
  const uint shift = (t & 1u) * 16u;  // of a 16-bit element in its word
  if (SCATTER == 0) {
    work[a] = DTYPE == CF_F32
                  ? tensor[t]
                  : floatBitsToUint(cf_decode16(DTYPE, (tensor[t >> 1] >> shift) & 0xffffu));
  } else if (DTYPE == CF_F32) {
    tensor[t] = work[a];
  } else {
    atomicAnd(tensor[t >> 1], ~(0xffffu << shift));
    atomicOr(tensor[t >> 1], cf_encode16(DTYPE, uintBitsToFloat(work[a])) << shift);
  }
}
