// SPDX-License-Identifier: MIT
// io.glsl: parameter blocks and the tensors of a kernel. CF_READS(q) and CF_WRITES(o) declare a
// tensor and its load_q(element), load4_q(element, count), store_o(element, value) and store4_o, in
// f32 whatever the element type. CF_READS_ROWS leaves it to the kernel where a row of a tile lies.
// Tensors are arrays of 32-bit words on every device, so no 16-bit feature is needed; a 16-bit
// store touches its half of the word alone, because the other half may be another's.
// Built with CF_ARENA every tensor lies in one f32 buffer, the arena: see copy.comp.
#extension GL_EXT_control_flow_attributes : require
#include "../../../common/shared/abi.h"
#include "../../../common/shared/half.h"

layout(local_size_x_id = CF_SPEC_THREADS) in;
layout(constant_id = CF_SPEC_THREADS) const uint THREADS = 128;
layout(constant_id = CF_SPEC_DTYPE) const uint DTYPE = 0;
layout(constant_id = CF_SPEC_FEATURES) const uint FEATURES = 0;

#ifdef CF_OPTIONS
layout(std140, set = 0, binding = CF_BIND_PROBLEM) uniform Problem {
  cf_problem problem;
  cf_options options;
};
layout(push_constant) uniform Slice {
  cf_slice slice;
  cf_option_slice option_slice;
};
// Elements between the start of an option's binding and its buffer, by the order of crossflash_args.
uint option_skip(uint option) {
  const uint four = option < 4 ? option_slice.skips0
                               : (option < 8 ? option_slice.skips1 : option_slice.skips2);
  return (four >> (8 * (option & 3u))) & 0xffu;
}
#else
layout(std140, set = 0, binding = CF_BIND_PROBLEM) uniform Problem { cf_problem problem; };
layout(push_constant) uniform Slice { cf_slice slice; };
#endif
layout(std430, set = 0, binding = CF_BIND_WORK) buffer Work { float work[]; };

// Whether the problem has a score feature, which is known when the kernel is built unless that is put off.
bool asked(uint feature) {
  const uint features = (FEATURES & CF_AT_RUN_TIME) != 0 ? problem.score.features : FEATURES;
  return (features & feature) != 0;
}

// The same memory by the word, by two and by four: an aligned run of 4 elements is one load.
#define CF_WORDS(name, binding_number)                                                    \
  layout(std430, set = 0, binding = binding_number) readonly buffer One_##name {          \
    uint one_##name[];                                                                    \
  };                                                                                      \
  layout(std430, set = 0, binding = binding_number) readonly buffer Two_##name {          \
    uvec2 two_##name[];                                                                   \
  };                                                                                      \
  layout(std430, set = 0, binding = binding_number) readonly buffer Four_##name {         \
    uvec4 four_##name[];                                                                  \
  };

// Elements i to i + 3, of which the first `count` are in the tensor; the others are 0.
#define CF_LOAD4(name)                                                 \
  vec4 load4_##name(uint i, uint count) {                              \
    if (count >= 4 && (i & 3u) == 0) return aligned_##name(i);         \
    vec4 x = vec4(0.0);                                                \
    [[dont_unroll]] for (uint e = 0; e < min(count, 4); ++e)           \
      x = mix(x, vec4(load_##name(i + e)), equal(uvec4(e), uvec4(0, 1, 2, 3))); \
    return x;                                                          \
  }

// Element of row r of a tile whose row 0 is at `origin`, for STAGE.
#define CF_ROW(name) \
  uint row_of_load4_##name(uint origin, uint r, uint stride) { return origin + r * stride; }

// Stores of the first `count` of four elements.
#define CF_STORE4(name)                                                \
  void store4_##name(uint i, vec4 x, uint count) {                     \
    [[dont_unroll]] for (uint e = 0; e < min(count, 4); ++e)           \
      store_##name(i + e, e == 0 ? x.x : (e == 1 ? x.y : (e == 2 ? x.z : x.w))); \
  }

vec4 decode_pairs(uvec2 w) {
  return vec4(cf_decode16(DTYPE, w.x & 0xffffu), cf_decode16(DTYPE, w.x >> 16),
              cf_decode16(DTYPE, w.y & 0xffffu), cf_decode16(DTYPE, w.y >> 16));
}

#ifdef CF_ARENA

CF_WORDS(arena, CF_BIND_WORK)

#define CF_READS(name, binding_number) CF_READS_ROWS(name, binding_number) CF_ROW(name)
#define CF_READS_ROWS(name, binding_number)                                   \
  float load_##name(uint i) { return uintBitsToFloat(one_arena[i]); }         \
  vec4 aligned_##name(uint i) { return uintBitsToFloat(four_arena[i >> 2]); } \
  CF_LOAD4(name)
#define CF_WRITES(name, binding_number)               \
  void store_##name(uint i, float x) { work[i] = x; } \
  CF_STORE4(name)
#define CF_READS_F32(name, binding_number) \
  float load_##name(uint i) { return uintBitsToFloat(one_arena[i]); }
#define CF_WRITES_F32(name, binding_number) CF_WRITES(name, binding_number)

#else

#define CF_READS(name, binding_number) CF_READS_ROWS(name, binding_number) CF_ROW(name)
#define CF_READS_ROWS(name, binding_number)                                                   \
  CF_WORDS(name, binding_number)                                                              \
  float load_##name(uint i) {                                                                 \
    if (DTYPE == CF_F32) return uintBitsToFloat(one_##name[i]);                               \
    return cf_decode16(DTYPE, (one_##name[i >> 1] >> ((i & 1u) * 16u)) & 0xffffu);            \
  }                                                                                           \
  vec4 aligned_##name(uint i) {                                                               \
    if (DTYPE == CF_F32) return uintBitsToFloat(four_##name[i >> 2]);                         \
    return decode_pairs(two_##name[i >> 2]);                                                  \
  }                                                                                           \
  CF_LOAD4(name)

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
  }                                                                                           \
  CF_STORE4(name)

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

// The work binding's own accessors, for accumulators handed from one dispatch to the next.
float load_work(uint i) { return work[i]; }
vec4 aligned_work(uint i) { return vec4(work[i], work[i + 1], work[i + 2], work[i + 3]); }
CF_LOAD4(work)
void store_work(uint i, float x) { work[i] = x; }
CF_STORE4(work)
