// SPDX-License-Identifier: MIT
// abi.h: what the host and the kernels must agree on, as one text: parameter blocks, binding
// numbers, specialization-constant ids. Every struct is made of 4-byte scalars and is a multiple of
// 16 bytes, so that C++, std140 (uniform block) and std430 (push constants) lay it out alike.
#ifndef CROSSFLASH_SHARED_ABI_H
#define CROSSFLASH_SHARED_ABI_H
#include "lang.h"
CF_BEGIN

// Element types, as crossflash_dtype.
CF_CONST uint CF_F32 = 0u;
CF_CONST uint CF_F16 = 1u;
CF_CONST uint CF_BF16 = 2u;

// Score features, bits of cf_score.features.
CF_CONST uint CF_DROPOUT = 1u;
CF_CONST uint CF_SOFTCAP = 2u;
CF_CONST uint CF_BIAS = 4u;
CF_CONST uint CF_ALIBI = 8u;
CF_CONST uint CF_SINK = 16u;
CF_CONST uint CF_MASK = 32u;
CF_CONST uint CF_AT_RUN_TIME = 0x80000000u;  // of CF_SPEC_FEATURES alone

// Which keys a query may see (mask.h).
struct cf_visibility {
  int seq_k;
  int diagonal;      // query i stands at key i + diagonal
  int window_left;   // inclusive count, -1: open
  int window_right;  // inclusive count, -1: open; causal is 0
};

// How a raw dot product becomes a score (score.h).
struct cf_score {
  float scale;
  float keep_scale;  // 1/(1 - p_drop)
  uint features;
  float softcap;
};

// Random state of one run (dropout.h).
struct cf_dropout {
  uint seed_lo;
  uint seed_hi;
  uint offset;
  uint threshold;  // dropped if the 16-bit draw is below it: p_drop * 65536
};

// Distances in elements; `width` is the head size. Where a tensor starts is in cf_slice.
struct cf_tensor {
  uint batch;
  uint seq;
  uint head;
  uint width;
};

// One problem as a kernel sees it; fixed by the plan (a uniform block in Vulkan).
struct cf_problem {
  cf_visibility visibility;
  cf_score score;
  uint heads_q;
  uint group;      // query heads for each key head
  uint head_step;  // query heads between the tensors of two neighbouring key heads: group, or 1 in an arena
  int seq_q;
  cf_tensor q;
  cf_tensor k;
  cf_tensor v;
  cf_tensor o;
  cf_tensor grad_o;
  cf_tensor grad_q;
  cf_tensor grad_k;
  cf_tensor grad_v;
  cf_tensor lse;  // [batch, heads_q, seq_q] f32, width 1; also the row dots D
};

// One dispatch: a box of (batch, key head, query head of the group, queries, keys), changing from
// dispatch to dispatch (push constants in Vulkan). base_* is the element of the tensor's binding
// at the first corner of the box: (batch_begin, head_begin, group_begin, query_begin or key_begin).
struct cf_slice {
  cf_dropout dropout;
  uint base_q;
  uint base_k;
  uint base_v;
  uint base_o;
  uint base_grad_o;
  uint base_grad_q;
  uint base_grad_k;
  uint base_grad_v;
  uint base_lse;
  uint base_delta;    // in f32 words of the work binding, as are the next
  uint base_state;    // accumulators carried from dispatch to dispatch
  uint first_group;   // workgroup 0 of this dispatch is this one of the box
  uint batch_begin;
  uint head_begin;    // key heads
  uint heads;         // key heads in the box
  uint group_begin;   // query heads within the group
  uint group_count;
  int query_begin;
  int query_end;
  int key_begin;
  int key_end;
  uint carry;         // CF_CARRY_*
  uint base_mend;     // cf_mend_row's factors, like base_delta
  uint walk_begin;    // dBias: of the tiles that share an element group_count from here on
};
CF_CONST uint CF_CARRY_IN = 1u;   // start from the state instead of from nothing
CF_CONST uint CF_CARRY_OUT = 2u;  // leave the state instead of the result

// Copy between a tensor's window and the arena (copy.comp), as 4 nested counts with strides.
struct cf_copy {
  uint count0, count1, count2, count3;
  uint tensor0, tensor1, tensor2, tensor_base;  // strides of axes 0 to 2; axis 3 has stride 1
  uint arena0, arena1, arena2, arena_base;
  uint first_group;
  uint reserved0, reserved1, reserved2;
};

// How many rows each sequence has, as crossflash_rows.
CF_CONST uint CF_ROWS_ALL = 0u;
CF_CONST uint CF_ROWS_LENGTHS = 1u;
CF_CONST uint CF_ROWS_OFFSETS = 2u;

// Over (batch, query head, query, key); 0: all of the axis share the element.
struct cf_score_strides {
  uint batch;
  uint head;
  uint seq_q;
  uint seq_k;
};

// What the options of a problem ask for beyond cf_score; follows cf_problem in the uniform block of
// the kernels that are built with options.
struct cf_options {
  cf_score_strides bias;
  cf_score_strides grad_bias;
  cf_score_strides mask;   // 32-bit words
  uint bias_dtype;
  uint rows_q;             // CF_ROWS_*, like the next
  uint rows_k;
  uint index_words;        // of a length or offset
  int total_q;             // rows of packed tensors
  int total_k;
  uint top_left;           // the corner of the mask
  uint random_on_device;
  int page_size;           // keys of a page; 0: not paged
  int pages;
  uint pages_of_sequence;  // entries of a row of the table
  uint batch;
  uint arena_bias;         // first words in the arena, where the tensors are found there
  uint arena_alibi;
  uint arena_sink;
  uint arena_mask;
  uint arena_random;
  uint arena_grad_bias;
  uint arena_grad_sink;    // of all query heads
  uint reserved;
};

// Push constants that follow cf_slice in those kernels. A binding starts at an aligned offset at or
// before the buffer: skips* are the elements between, a byte for each buffer (an offset is aligned
// to 256 bytes at most, an element has 2 at least), in the order of crossflash_args.
struct cf_option_slice {
  uint skips0;
  uint skips1;
  uint skips2;
  uint arena;  // first word of the arena in the work binding
};

// Vulkan binding numbers (set 0). A kernel declares those it uses. A kernel built for the arena
// finds every tensor in CF_BIND_WORK.
#define CF_BIND_PROBLEM 0
#define CF_BIND_WORK 1
#define CF_BIND_Q 2
#define CF_BIND_K 3
#define CF_BIND_V 4
#define CF_BIND_O 5
#define CF_BIND_GRAD_O 6
#define CF_BIND_GRAD_Q 7
#define CF_BIND_GRAD_K 8
#define CF_BIND_GRAD_V 9
#define CF_BIND_LSE 10
#define CF_BIND_BIAS 11  // from here on in the order of crossflash_args
#define CF_BIND_ALIBI 12
#define CF_BIND_SINK 13
#define CF_BIND_MASK 14
#define CF_BIND_ROWS_Q 15
#define CF_BIND_ROWS_K 16
#define CF_BIND_PAGE_TABLE 17
#define CF_BIND_RANDOM 18
#define CF_BIND_GRAD_BIAS 19
#define CF_BIND_GRAD_SINK 20
#define CF_BIND_TENSOR 2  // copy.comp: the tensor's window

// Vulkan specialization constants.
#define CF_SPEC_THREADS 0       // invocations of a workgroup: rows of threads x columns of threads
#define CF_SPEC_DTYPE 1         // CF_F32, CF_F16, CF_BF16
#define CF_SPEC_THREAD_COLS 2   // threads side by side in a tile
#define CF_SPEC_ROWS 3          // tile rows of one thread
#define CF_SPEC_COLS 4          // tile columns of one thread
#define CF_SPEC_DEPTH 5         // head-size slice that is staged at a time
#define CF_SPEC_STRIP 6         // rows that are staged at a time when accumulating
#define CF_SPEC_WIDTH_A 7       // vec4 columns of one thread in the first accumulator (O, dQ, dK)
#define CF_SPEC_WIDTH_B 8       // and in the second (dV)
#define CF_SPEC_PANEL 9         // vec4 of the staging area in shared memory
#define CF_SPEC_FEATURES 10     // cf_score.features: a kernel is built without what is not asked; or
                                // CF_AT_RUN_TIME: built with everything
#define CF_SPEC_SCATTER 2       // copy.comp: 0 tensor to arena, 1 arena to tensor

#ifndef CF_GLSL
static_assert(sizeof(cf_problem) == 3 * 16 + 9 * 16, "std140: a multiple of 16 without holes");
static_assert(sizeof(cf_slice) == 112, "push constants: 128 bytes at most");
static_assert(sizeof(cf_options) == 8 * 16, "std140: a multiple of 16 without holes");
static_assert(sizeof(cf_slice) + sizeof(cf_option_slice) == 128, "push constants: at most that");
static_assert(sizeof(cf_copy) == 64, "push constants: 128 bytes at most");
#endif

CF_END
#endif
