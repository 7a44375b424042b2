// SPDX-License-Identifier: MIT
// io.glsl: parameter blocks and the tensors of a kernel. CF_READS(q) and CF_WRITES(o) declare a
// tensor and its load_q(element) or store_o(element, value), in f32 whatever the element type.
// Tensors are arrays of 32-bit words on every device, so no 16-bit feature is needed; a 16-bit
// store touches its half of the word alone, because the other half may be another's.
// Built with CF_ARENA every tensor lies in one f32 buffer, the arena: see copy.comp.
#include "../../../common/shared/abi.h"
#include "../../../common/shared/half.h"

layout(local_size_x_id = CF_SPEC_THREADS) in;
layout(constant_id = CF_SPEC_THREADS) const uint THREADS = 128;
layout(constant_id = CF_SPEC_DTYPE) const uint DTYPE = 0;

layout(std140, set = 0, binding = CF_BIND_PROBLEM) uniform Problem { cf_problem problem; };
layout(push_constant) uniform Slice { cf_slice slice; };
layout(std430, set = 0, binding = CF_BIND_WORK) buffer Work { float work[]; };

#ifdef CF_ARENA

#define CF_READS(name, binding_number) \
  float load_##name(uint i) { return work[i]; }
#define CF_WRITES(name, binding_number) \
  void store_##name(uint i, float x) { work[i] = x; }
#define CF_READS_F32(name, binding_number) CF_READS(name, binding_number)
#define CF_WRITES_F32(name, binding_number) CF_WRITES(name, binding_number)

#else

#define CF_READS(name, binding_number)                                                        \
  layout(std430, set = 0, binding = binding_number) readonly buffer Read_##name {             \
    uint read_##name[];                                                                       \
  };                                                                                          \
  float load_##name(uint i) {                                                                 \
    if (DTYPE == CF_F32) return uintBitsToFloat(read_##name[i]);                              \
    return cf_decode16(DTYPE, (read_##name[i >> 1] >> ((i & 1u) * 16u)) & 0xffffu);           \
  }

#define CF_WRITES(name, binding_number)                                                       \
  layout(std430, set = 0, binding = binding_number) buffer Write_##name {                     \
    uint write_##name[];                                                                      \
  };                                                                                          \
  void store_##name(uint i, float x) {                                                        \
    if (DTYPE == CF_F32) {                                                                    \
      write_##name[i] = floatBitsToUint(x);                                                   \
    } else {                                                                                  \
      const uint shift = (i & 1u) * 16u;                                                      \
      atomicAnd(write_##name[i >> 1], ~(0xffffu << shift));                                   \
      atomicOr(write_##name[i >> 1], cf_encode16(DTYPE, x) << shift);                         \
    }                                                                                         \
  }

#define CF_READS_F32(name, binding_number)                                                    \
  layout(std430, set = 0, binding = binding_number) readonly buffer Read_##name {             \
    float read_##name[];                                                                      \
  };                                                                                          \
  float load_##name(uint i) { return read_##name[i]; }

#define CF_WRITES_F32(name, binding_number)                                                   \
  layout(std430, set = 0, binding = binding_number) buffer Write_##name {                     \
    float write_##name[];                                                                     \
  };                                                                                          \
  void store_##name(uint i, float x) { write_##name[i] = x; }

#endif
