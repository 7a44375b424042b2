/* SPDX-License-Identifier: MIT
 *
 * crossflash: exact attention, forward and backward, on any GPU. The C API.
 *
 *   describe a crossflash_problem -> make a crossflash_plan on a crossflash_device -> run it, often
 *
 * Everything that can be refused is refused when the plan is made (or asked for with
 * crossflash_supports), before anything is enqueued; running a plan fails only for its arguments
 * or for device errors. Every function may be called from any thread; see each for what it shares.
 *
 * Q [batch, seq_q, heads_q, d], K [batch, seq_k, heads_kv, d], V [batch, seq_k, heads_kv, d_v],
 * O [batch, seq_q, heads_q, d_v]. For query i and key j of one head:
 *
 *   s_ij = scale * dot(q_i, k_j)
 *   s_ij = softcap * tanh(s_ij / softcap)         if softcap > 0
 *   s_ij = s_ij + bias_bhij - slope_h * |i + offset - j|   what is given of both
 *   p_ij = exp(s_ij - m_i) / l_i                  over the visible j, and the head's sink if given
 *   o_i  = sum_j p_ij z_ij v_j                    lse_i = m_i + log(l_i), natural logarithm
 *
 * where z is dropout's 0 or 1/(1 - p) and offset is seq_k - seq_q, but 0 with a top-left causal
 * mask. A row that sees no key has o = 0, lse = -inf (with a sink, the sink) and gives zero
 * gradient. The algorithm is FlashAttention's (Dao et al. 2022, Algorithms 1, 2 and 4) in the
 * loop order of FlashAttention-2 (Dao 2023).
 */
#ifndef CROSSFLASH_CROSSFLASH_H
#define CROSSFLASH_CROSSFLASH_H

#include <stddef.h>
#include <stdint.h>

#if defined(CROSSFLASH_BUILD_SHARED)
#define CROSSFLASH_API __attribute__((visibility("default")))
#else
#define CROSSFLASH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CROSSFLASH_VERSION_MAJOR 0
#define CROSSFLASH_VERSION_MINOR 1
#define CROSSFLASH_VERSION_PATCH 0

/* ---- errors ---------------------------------------------------------------------------------- */

typedef enum crossflash_status {
  CROSSFLASH_OK = 0,
  CROSSFLASH_INVALID = 1,      /* the arguments contradict themselves; nobody could run this */
  CROSSFLASH_UNSUPPORTED = 2,  /* a valid request that this device or version cannot do */
  CROSSFLASH_DEVICE_ERROR = 3, /* the device or its driver failed, or memory ran out */
} crossflash_status;

/* One sentence about the last call on this thread that did not return CROSSFLASH_OK; it names the
 * field and the value. Never NULL; valid until the next failing call on this thread. */
CROSSFLASH_API const char* crossflash_last_error(void);

/* "ok", "invalid", "unsupported", "device error". */
CROSSFLASH_API const char* crossflash_status_name(crossflash_status status);

/* ---- devices --------------------------------------------------------------------------------- */

typedef struct crossflash_device crossflash_device;

typedef struct crossflash_device_info {
  size_t struct_size; /* set to sizeof(crossflash_device_info) by the caller */
  char backend[16];   /* "hip", "vulkan", "cpu" */
  int32_t index;      /* within the backend, from 0 */
  int32_t usable;     /* 0: `reason` says why not */
  char name[128];     /* the device's own name */
  char driver[128];   /* driver name and version */
  char reason[256];
} crossflash_device_info;

/* Writes up to `capacity` entries and the number there are to `*count`; `infos` may be NULL to ask
 * for the count. Entries of backends that are built but find no device say so in `reason`. */
CROSSFLASH_API crossflash_status crossflash_list_devices(crossflash_device_info* infos,
                                                         size_t capacity, size_t* count);

typedef struct crossflash_device_options {
  size_t struct_size;
  /* "cpu", "vulkan", "hip:1"; NULL: CROSSFLASH_BACKEND if set, else the first real GPU, else the
   * cpu backend. */
  const char* backend;
  /* Kernel variant to insist on, as named by crossflash_device_variant; NULL: CROSSFLASH_VARIANT if
   * set, else the first of the backend's variants that can do the problem. */
  const char* variant;
  /* Limits to pretend, to see how a weaker device behaves: "floor", or a comma-separated list such
   * as "shared=16384,invocations=128,buffers=4,groups=65535,range=1048576". They can only lower
   * what the device has. "gpu" gives a Vulkan driver on a CPU the kernels of a GPU. NULL:
   * CROSSFLASH_LIMITS if set, else none. */
  const char* limits;
} crossflash_device_options;

/* `options` may be NULL. A device may be used from several threads at once. */
CROSSFLASH_API crossflash_status crossflash_device_open(const crossflash_device_options* options,
                                                        crossflash_device** device);
/* Waits for the device's work. Plans and buffers of the device must be gone before. */
CROSSFLASH_API void crossflash_device_close(crossflash_device* device);
CROSSFLASH_API crossflash_status crossflash_device_get_info(const crossflash_device* device,
                                                            crossflash_device_info* info);
/* The name of the backend's n-th kernel variant, most specialised first; NULL past the last. */
CROSSFLASH_API const char* crossflash_device_variant(const crossflash_device* device, size_t n);
/* Waits until everything enqueued on the device's own queue is done; reports device loss. */
CROSSFLASH_API crossflash_status crossflash_device_wait(crossflash_device* device);

/* Compiled pipelines as one blob, to make the next start fast. With data NULL writes the size to
 * `*size`. A backend without compiled state has size 0. A blob of another device, driver or
 * version is ignored by the driver, never an error; a truncated one is. */
CROSSFLASH_API crossflash_status crossflash_device_cache_save(crossflash_device* device, void* data,
                                                              size_t* size);
CROSSFLASH_API crossflash_status crossflash_device_cache_load(crossflash_device* device,
                                                              const void* data, size_t size);

/* ---- memory ---------------------------------------------------------------------------------- */

/* A place in device memory: `handle` is a host pointer (cpu), a VkBuffer (vulkan) or a device
 * pointer (hip), `offset` counts bytes from its start and is a multiple of the element size. */
typedef struct crossflash_buffer {
  void* handle;
  uint64_t offset;
} crossflash_buffer;

CROSSFLASH_API crossflash_status crossflash_buffer_create(crossflash_device* device, uint64_t bytes,
                                                          crossflash_buffer* buffer);
CROSSFLASH_API void crossflash_buffer_destroy(crossflash_device* device, crossflash_buffer buffer);
/* Copies after everything enqueued before; returns when the copy is done. */
CROSSFLASH_API crossflash_status crossflash_upload(crossflash_device* device,
                                                   crossflash_buffer destination,
                                                   const void* source, uint64_t bytes);
CROSSFLASH_API crossflash_status crossflash_download(crossflash_device* device, void* destination,
                                                     crossflash_buffer source, uint64_t bytes);

/* ---- problem --------------------------------------------------------------------------------- */

typedef enum crossflash_dtype {
  CROSSFLASH_F32 = 0,
  CROSSFLASH_F16 = 1,  /* IEEE binary16 */
  CROSSFLASH_BF16 = 2, /* the upper half of a binary32 */
} crossflash_dtype;

/* Which corner the causal diagonal is tied to when seq_q != seq_k. */
typedef enum crossflash_causal {
  CROSSFLASH_NOT_CAUSAL = 0,
  CROSSFLASH_CAUSAL_TOP_LEFT = 1,     /* query i sees keys j <= i */
  CROSSFLASH_CAUSAL_BOTTOM_RIGHT = 2, /* query i sees keys j <= i + seq_k - seq_q */
} crossflash_causal;

enum { /* bits of crossflash_problem.passes */
       CROSSFLASH_FORWARD = 1,
       CROSSFLASH_BACKWARD = 2,
       CROSSFLASH_APPEND = 4, /* alone or with forward: a cache is not trained */
};

/* Distances in elements between neighbours along each axis. `dim` must be 1. All four zero:
 * contiguous in the order [batch, seq, head, dim]. Otherwise every stride of an axis longer than 1
 * must be positive. */
typedef struct crossflash_strides {
  int64_t batch, seq, head, dim;
} crossflash_strides;

/* Distances in elements of a tensor over (batch, query head, query, key). 0 along an axis: all of
 * the axis share the element. Others are positive; that of keys is 0 or 1. All four zero:
 * contiguous. */
typedef struct crossflash_score_strides {
  int64_t batch, head, seq_q, seq_k;
} crossflash_score_strides;

/* An input that may be left out, and whose gradient backward may be asked for. */
typedef enum crossflash_given {
  CROSSFLASH_ABSENT = 0,
  CROSSFLASH_GIVEN = 1,
  CROSSFLASH_WITH_GRADIENT = 2, /* backward writes it; a forward alone takes it for given */
} crossflash_given;

/* How many queries, or keys, each sequence of the batch has. */
typedef enum crossflash_rows {
  CROSSFLASH_ROWS_ALL = 0, /* seq_q, or seq_k */
  /* Padded: lengths [batch] on the device. Padding is never read; its outputs are as of a row that
   * sees no key: o = 0, lse = -inf, zero gradients. */
  CROSSFLASH_ROWS_LENGTHS = 1,
  /* Packed: offsets [batch + 1] on the device; sequence b has rows offsets[b] .. offsets[b + 1] - 1
   * of tensors [total, heads, d], whose batch strides count for nothing. Rows of no sequence are
   * neither read nor written. lse is [heads_q, total_q]. */
  CROSSFLASH_ROWS_OFFSETS = 2,
} crossflash_rows;

/* Which two elements of a head a rotation turns together, for n = 0 .. rotary / 2 - 1. */
typedef enum crossflash_rotary_pairs {
  CROSSFLASH_ROTARY_HALVES = 0,      /* n and n + rotary / 2: GPT-NeoX, Llama on Hugging Face */
  CROSSFLASH_ROTARY_INTERLEAVED = 1, /* 2n and 2n + 1: RoFormer, GPT-J, Llama as published */
} crossflash_rotary_pairs;

typedef struct crossflash_problem {
  size_t struct_size;     /* set by crossflash_problem_init */
  uint32_t passes;        /* CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD, or with CROSSFLASH_APPEND */
  crossflash_dtype dtype; /* of q, k, v, o, grad_o, grad_q, grad_k, grad_v; sums are f32 always */
  int64_t batch;          /* 0 is allowed and does nothing */
  int64_t seq_q, seq_k;   /* 0 is allowed; of the longest sequence, where they differ */
  int64_t heads_q, heads_kv;     /* heads_q a multiple of heads_kv; query head h uses h / ratio */
  int64_t d, d_v;                /* head sizes of q, k and of v, o: 1 to 512 */
  crossflash_strides q, k, v, o; /* grad_* are read only for backward */
  crossflash_strides grad_o, grad_q, grad_k, grad_v;
  float scale; /* NAN: 1/sqrt(d) */
  crossflash_causal causal;
  /* Query i sees keys i + offset - window_left .. i + offset + window_right, both inclusive; -1 is
   * open. offset is 0 for a top-left causal mask, else seq_k - seq_q. */
  int64_t window_left, window_right;
  float dropout; /* probability of dropping an element, in [0, 1), kept to 1/65536 */
  /* 1: dropout's random state is two uint64 on the device, seed and offset (its low 32 bits), in
   * args.random; args.seed and args.offset are 0. */
  int32_t random_on_device;

  float softcap; /* positive, or 0: none (Gemma 2) */
  /* Slopes f32 [heads_q] in args.alibi (Press et al. 2022). */
  int32_t alibi; /* 0 or 1 */
  /* Logits f32 [heads_q] in args.sink, which take part in the softmax and have no value (gpt-oss,
   * StreamingLLM); their gradient, f32 [heads_q], in args.grad_sink. */
  crossflash_given sink;
  /* Added to the scores; f32 or of the tensors' type. -inf hides an element. The gradient has the
   * bias' type and is contiguous [batch, heads_q, seq_q, seq_k], with 1 in the place of axes along
   * which the bias has stride 0: summed over them. */
  crossflash_given bias;
  crossflash_dtype bias_dtype;
  crossflash_score_strides bias_strides;
  /* Which elements take part: bits in args.mask, 1 for those that do, that of key j in bit j % 32
   * of word j / 32 of a row. Strides are in 32-bit words, that of keys 1 (or all four zero:
   * contiguous, rows of (seq_k + 31) / 32 words). Tiles without a bit are skipped. */
  int32_t mask; /* 0 or 1 */
  crossflash_score_strides mask_strides;

  /* Masks, windows and ALiBi use each sequence's own lengths. Lengths and offsets, in args.rows_q
   * and args.rows_k, are int32 or int64 (row_bits 32, 64), lie on the device and are not checked:
   * what is out of range is clamped. */
  crossflash_rows rows_q, rows_k;
  int32_t row_bits;
  int64_t total_q, total_k; /* with offsets: rows of the packed tensors */
  /* Forward only. page_size > 0: keys and values lie in pages [pages, page_size, heads_kv, d], of
   * which sequence b's are args.page_table[b][0 .. (seq_k + page_size - 1) / page_size - 1], int32
   * on the device; k.batch and v.batch are the distances of pages. A multiple of 16. */
  int64_t page_size, pages;

  /* 1: equal inputs give equal bits, run after run. 0: hip may sum grad_q of f16 and bf16 in any
   * order, which is faster; all else is deterministic always. */
  int32_t deterministic;

  /* Append (crossflash_append): args.new_k [batch, seq_q, heads_kv, d] and args.new_v [batch,
   * seq_q, heads_kv, d_v], whose rows lie as those of q (packed with rows_q), become the last rows
   * of each sequence's keys and values: row i that at i + seq_k - seq_q, with the sequence's own
   * lengths. So seq_k and rows_k count the new rows, and serve the forward that follows as they
   * are. Rows that would come before the first are dropped. */
  crossflash_strides new_k, new_v;
  /* Rotary embedding (Su et al. 2021, RoFormer): on its way into k the new key at position p, and
   * the query of the same row, turn their pairs n of the first `rotary` elements:
   *   (x, y) -> (x cos - y sin, y cos + x sin),  cos = args.cosine[p][n], sin = args.sine[p][n],
   * tables f32 [positions, rotary / 2]; a p outside of them counts as the nearest inside. The whole
   * query goes to args.rotated_q, for forward to take as q, and which may be q itself if the
   * strides are the same; padding becomes 0. rotary is even and at most d; 0: none, and no query is
   * touched. */
  crossflash_strides rotated_q;
  int64_t rotary;
  crossflash_rotary_pairs rotary_pairs;
  int64_t positions;
} crossflash_problem;

/* Sets struct_size and the defaults: forward, f32, scale NAN, windows -1, row_bits 32, everything
 * else 0. */
CROSSFLASH_API void crossflash_problem_init(crossflash_problem* problem);

/* ---- plan ------------------------------------------------------------------------------------ */

typedef struct crossflash_plan crossflash_plan;

/* CROSSFLASH_OK if crossflash_plan_create would succeed but for memory; compiles nothing. */
CROSSFLASH_API crossflash_status crossflash_supports(const crossflash_device* device,
                                                     const crossflash_problem* problem);
/* Chooses kernels and tiles and compiles what is not compiled yet. A plan may be run from several
 * threads at once if each run has its own outputs and workspace. */
CROSSFLASH_API crossflash_status crossflash_plan_create(crossflash_device* device,
                                                        const crossflash_problem* problem,
                                                        crossflash_plan** plan);
CROSSFLASH_API void crossflash_plan_destroy(crossflash_plan* plan);
/* Bytes of workspace one run of the pass needs, beyond inputs and outputs: O(seq_q + seq_k). */
CROSSFLASH_API uint64_t crossflash_plan_workspace(const crossflash_plan* plan, uint32_t pass);
/* One line: backend, variant, type, kernel tiles and why. Owned by the plan. */
CROSSFLASH_API const char* crossflash_plan_describe(const crossflash_plan* plan);

/* ---- running --------------------------------------------------------------------------------- */

/* Buffers of all passes. lse is f32 [batch, heads_q, seq_q], contiguous (see also
 * CROSSFLASH_ROWS_OFFSETS): written by forward, read by backward. Forward writes o and lse;
 * backward reads q, k, v, o, lse, grad_o and writes every element of grad_q, grad_k, grad_v. A
 * buffer whose tensor has no element may be {NULL, 0}. */
typedef struct crossflash_args {
  size_t struct_size; /* sizeof(crossflash_args) */
  crossflash_buffer q, k, v, o, lse;
  crossflash_buffer grad_o, grad_q, grad_k, grad_v;
  /* At least crossflash_plan_workspace bytes, or {NULL, 0} to take it from the device's pool. */
  crossflash_buffer workspace;
  /* Dropout's random state: the same values in forward and backward. offset < 2^32. */
  uint64_t seed, offset;
  /* What the problem's options ask for; see there. Others may be {NULL, 0}. */
  crossflash_buffer bias, alibi, sink, mask, rows_q, rows_k, page_table, random;
  crossflash_buffer grad_bias, grad_sink;
  /* Of append, which writes k, v and rotated_q, and reads these, q and the rows' tables. */
  crossflash_buffer new_k, new_v, rotated_q, cosine, sine;
  /* hip: a hipStream_t (cudaStream_t) of the device, where the run is enqueued instead of on the
   * device's own queue (the null stream itself has the name hipStreamLegacy here); it may be
   * capturing a graph. Every other backend refuses one that is not NULL. */
  void* stream;
} crossflash_args;

/* Enqueue on args' stream or else the device's own queue, in order, and return (the cpu backend
 * returns when done). */
CROSSFLASH_API crossflash_status crossflash_forward(crossflash_plan* plan,
                                                    const crossflash_args* args);
CROSSFLASH_API crossflash_status crossflash_backward(crossflash_plan* plan,
                                                     const crossflash_args* args);
CROSSFLASH_API crossflash_status crossflash_append(crossflash_plan* plan,
                                                   const crossflash_args* args);

/* The dropout mask every backend uses for (problem, seed, offset): bytes 0 (dropped) or 1 (kept),
 * [batch, heads_q, seq_q, seq_k], written to host memory. */
CROSSFLASH_API crossflash_status crossflash_dropout_mask(const crossflash_problem* problem,
                                                         uint64_t seed, uint64_t offset,
                                                         uint8_t* mask);

#ifdef __cplusplus
}
#endif
#endif
