// SPDX-License-Identifier: MIT
// launch.h: the seam between the HIP backend's host side and its kernels: what a kernel is given,
// and the table of kernels there are. Plain data that any C++ compiler reads; streams and error
// codes are hipStream_t and hipError_t (on NVIDIA cudaStream_t and cudaError_t) as void* and int.
// Pointers point at element (0, 0, 0); strides are 64-bit, in elements, innermost 1.
#pragma once

#include <cstdint>
#include <span>

#include "common/shared/abi.h"

namespace crossflash::hip {

struct KernelTensor {
  void* data;
  std::int64_t batch, seq, head;
};

// One f32 for each (batch, query head, query).
struct KernelRows {
  float* data;
  std::int64_t batch, seq, head;
};

// Over (batch, query head, query, key); strides of 0 share. Null: there is none.
struct KernelScores {
  void* data;
  std::int64_t batch, head, seq_q, seq_k;
};

// Lengths or offsets of the sequences on one side, on the device; not given: all are the longest.
struct KernelSequences {
  const void* data;
  bool given, offsets, wide;  // offsets: packed; wide: 64 bits
  int total;                  // rows of packed tensors
};

// Keys and values in pages: page_table[batch][of_sequence]; size 0: there are none.
struct KernelPages {
  const std::int32_t* table;
  int size, count, of_sequence;
};

// What score features and sequences need: general kernels alone look at it.
struct KernelOptions {
  KernelScores bias, grad_bias;  // elements of bias_dtype
  shared::uint bias_dtype;
  KernelScores mask;  // 32-bit words
  const float* alibi;
  const float* sink;
  float* grad_sink;
  KernelSequences rows_q, rows_k;
  bool top_left;  // the corner of the mask, where sequences differ in length
  KernelPages pages;
  const std::uint64_t* random;  // seed and offset; null: those of KernelArguments::dropout
};

// What append puts where, and how it turns keys and queries (common/shared/rotary.h).
struct KernelAppend {
  KernelTensor new_k, new_v, rotated_q;
  const float *cosine, *sine;  // [positions, rotary / 2]
  int rotary, positions;
  bool interleaved;
};

// One problem as every kernel sees it. A pass reads what it needs; the rest may be null.
struct KernelArguments {
  shared::cf_visibility visibility;
  shared::cf_score score;
  shared::cf_dropout dropout;
  int batch, heads_q, group, seq_q;  // group: query heads for each key head
  int d, d_v;                        // head sizes of q and k, and of v and o
  KernelTensor q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  KernelRows lse;
  int splits;              // stretches that forward_split cuts the keys into, to kMostSplits
  float state_unit;        // of a score, which m of their states counts in
  KernelRows states;       // m, l, o of the stretches: workspace, from forward_split to combine
  KernelRows delta;        // D, row dots: workspace, written by row_dot, read by grad_q and grad_kv
  KernelRows mend;         // cf_mend_row's factors: workspace, written by grad_q, read by grad_kv
  KernelRows base;         // backward_base of lse: workspace, written by row_dot, read by grad_all
  KernelRows grad_q_sums;  // dQ in f32: workspace, cleared by row_dot, see query_sums.h
  KernelOptions options;
  KernelAppend append;

  // Whether the problem is more than a positive scale, a mask's diagonal and window.
  bool general() const {
    return score.features != 0 || !(score.scale > 0.0f) || options.rows_q.given ||
           options.rows_k.given || options.pages.size > 0;
  }
};

inline constexpr int kMostSplits = 128;

// Forward is one kernel, forward; or forward_split, and combine after it if there are several
// splits. Backward is row_dot, grad_q, grad_kv in this order, each sum in one order; or row_dot,
// grad_all, cast_grad_q, with fewer products, where the order of the sums of dQ is free. What was
// asked for of grad_bias and grad_sink comes last, since grad_q leaves them what it knows of rows.
enum class KernelPass {
  forward,
  forward_split,
  combine,
  row_dot,
  grad_q,
  grad_kv,
  grad_all,
  cast_grad_q,
  grad_bias,
  grad_sink,
  append
};

struct Variant {
  const char* arch;  // "gfx942"; on NVIDIA the least architecture, "sm_80"
  const char* name;  // "forward_f16_d128_128x64": pass, type, head sizes up to, tile
  KernelPass pass;
  shared::uint dtype;  // CF_F32, CF_F16, CF_BF16
  int head;            // max(d, d_v) at most
  bool general;        // takes any options; the others none (KernelArguments::general)
  int rows, cols;      // tile: rows a block owns, columns it walks in
  int slice;           // columns of its output that a block owns; 0: all there are
  int threads;
  int shared_bytes;  // dynamic shared memory of a block
  // Allows shared_bytes on the current device; once for each device before the first launch.
  int (*prepare)();
  int (*launch)(const KernelArguments& arguments, void* stream);
};

// All kernels of one compiled unit: an architecture, a pass, an element type. Most specialised
// first: the first row of the device's architecture that accepts() takes is the one to launch.
using Variants = std::span<const Variant>;

inline bool accepts(const Variant& variant, KernelPass pass, shared::uint dtype,
                    const KernelArguments& arguments) {
  const int head = arguments.d > arguments.d_v ? arguments.d : arguments.d_v;
  return variant.pass == pass && variant.dtype == dtype && head <= variant.head &&
         (variant.general || !arguments.general());
}

// Blocks that share a tile, each with a slice of the output's columns; of grad_kv first those of
// dK, then those of dV.
constexpr int slices(KernelPass pass, int slice, const KernelArguments& arguments) {
  if (slice == 0) return 1;
  const int of_d = (arguments.d + slice - 1) / slice;
  const int of_d_v = (arguments.d_v + slice - 1) / slice;
  if (pass == KernelPass::grad_kv) return of_d + of_d_v;
  return pass == KernelPass::forward ? of_d_v : of_d;
}

// Kernels for all head sizes take the matrix family of the others up to this one, and above it that
// of the largest, so that their products round like theirs.
inline constexpr int kLargestOfMma = 128;

// Queries and head sizes are rounded up to this in grad_q_sums, one f32 each (query_sums.h).
inline constexpr int kSumUnit = 64;

// Heads that append moves a row of for each of its rows: of keys, values and rotated queries.
constexpr int append_heads(const KernelArguments& arguments) {
  const int heads_kv = arguments.heads_q / arguments.group;
  return 2 * heads_kv + (arguments.append.rotary > 0 ? arguments.heads_q : 0);
}

// The row of grad_q_sums where sequence `batch` of packed ones begins, if `first` is its row of the
// tensors: none reaches into the next, however they are padded.
constexpr std::int64_t packed_sum_row(std::int64_t first, std::int64_t batch) {
  return (first / kSumUnit + batch) * kSumUnit;
}

// Blocks of a launch; all lie on grid.x, whose limit is 2^31 - 1. For grad_kv and grad_all they
// tile the keys, for forward_split the queries of a group for each split, for grad_bias what there
// is of the gradient's axes; grad_sink has one for each head; else they tile the queries.
inline std::int64_t blocks(const Variant& variant, const KernelArguments& arguments) {
  const auto tiles = [](std::int64_t length, int of) { return (length + of - 1) / of; };
  if (variant.pass == KernelPass::append)
    return tiles(append_heads(arguments), variant.rows) * arguments.seq_q * arguments.batch;
  if (variant.pass == KernelPass::grad_sink) return arguments.batch > 0 ? arguments.heads_q : 0;
  if (variant.pass == KernelPass::grad_bias) {
    const KernelScores& to = arguments.options.grad_bias;
    const std::int64_t rows = tiles(arguments.seq_q, variant.rows);
    const std::int64_t columns = tiles(arguments.visibility.seq_k, variant.cols);
    if (rows == 0 || columns == 0 || arguments.batch == 0) return 0;
    return (to.seq_q != 0 ? rows : 1) * (to.seq_k != 0 ? columns : 1) *
           (to.head != 0 ? arguments.heads_q : 1) * (to.batch != 0 ? arguments.batch : 1);
  }
  if (variant.pass == KernelPass::forward_split) {
    const std::int64_t rows = std::int64_t{arguments.seq_q} * arguments.group;
    return tiles(rows, variant.rows) * arguments.splits * (arguments.heads_q / arguments.group) *
           arguments.batch;
  }
  const bool keys = variant.pass == KernelPass::grad_kv || variant.pass == KernelPass::grad_all;
  const std::int64_t length = keys ? arguments.visibility.seq_k : arguments.seq_q;
  const std::int64_t heads = keys ? arguments.heads_q / arguments.group : arguments.heads_q;
  return tiles(length, variant.rows) * heads * arguments.batch *
         slices(variant.pass, variant.slice, arguments);
}

}  // namespace crossflash::hip
