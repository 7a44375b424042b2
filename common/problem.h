// SPDX-License-Identifier: MIT
// problem.h: a crossflash_problem that has been checked: strides filled in, causal mask and window
// made one rule, defaults resolved. Backends see only this. All checks stand in problem.cpp.
#pragma once

#include <array>
#include <cstdint>

#include "common/shared/abi.h"
#include "common/status.h"

namespace crossflash {

struct Strides {
  std::int64_t batch, seq, head;  // elements; the innermost is 1
};

// What a plan runs. All of them see the same problem.
enum class Pass { forward, backward, append };
constexpr std::array<Pass, 3> kAllPasses = {Pass::forward, Pass::backward, Pass::append};

// The tensors of a run, in the order of crossflash_args.
enum class TensorId { q, k, v, o, lse, grad_o, grad_q, grad_k, grad_v };
constexpr std::size_t kTensorCount = 9;
constexpr std::array<const char*, kTensorCount> kTensorNames = {
    "q", "k", "v", "o", "lse", "grad_o", "grad_q", "grad_k", "grad_v"};

// The buffers that options bring, in the order of crossflash_args.
enum class OptionId {
  bias,
  alibi,
  sink,
  mask,
  rows_q,
  rows_k,
  page_table,
  random,
  grad_bias,
  grad_sink,
  new_k,
  new_v,
  rotated_q,
  cosine,
  sine
};
constexpr std::size_t kOptionCount = 15;
constexpr std::array<const char*, kOptionCount> kOptionNames = {
    "bias",      "alibi",     "sink",  "mask",  "rows_q",    "rows_k", "page_table", "random",
    "grad_bias", "grad_sink", "new_k", "new_v", "rotated_q", "cosine", "sine"};

struct Tensor {
  crossflash_dtype dtype;
  std::int64_t batch, seq, heads, width;  // extents; lse has width 1
  Strides strides;

  bool empty() const { return batch == 0 || seq == 0 || heads == 0; }
  // Elements from the first to one past the last.
  std::int64_t extent() const {
    if (empty()) return 0;
    return (batch - 1) * strides.batch + (seq - 1) * strides.seq + (heads - 1) * strides.head +
           width;
  }
};

// Over (batch, query head, query, key); 0: all of the axis share the element.
struct ScoreStrides {
  std::int64_t batch, head, seq_q, seq_k;
};

struct Bias {
  bool given, gradient;
  crossflash_dtype dtype;
  ScoreStrides strides, grad_strides;  // elements; the gradient's is contiguous
};

struct Mask {
  bool given;
  ScoreStrides strides;  // 32-bit words
};

// What a query of each sequence may see depends on lengths that only the device knows.
struct Sequences {
  crossflash_rows q, k;
  int index_bytes;                // of lengths and offsets
  std::int64_t total_q, total_k;  // rows of packed tensors
  bool top_left;                  // the corner of the mask

  bool any() const { return q != CROSSFLASH_ROWS_ALL || k != CROSSFLASH_ROWS_ALL; }
};

struct Pages {
  std::int64_t size;         // keys of a page; 0: not paged
  std::int64_t count;        // pages in the pool
  std::int64_t of_sequence;  // entries of a row of the table
};

// New rows of k and v, and the rotation of keys and queries.
struct Append {
  bool given;
  Tensor new_k, new_v, rotated_q;  // rows as those of q
  std::int64_t rotary;             // leading elements that are rotated; 0: no query is touched
  bool interleaved;                // pairs are neighbours, not halves
  std::int64_t positions;          // rows of the tables
};

struct Problem {
  bool forward, backward;
  bool deterministic;
  crossflash_dtype dtype;
  std::int64_t batch, seq_q, seq_k, heads_q, heads_kv, d, d_v;
  // Of packed sequences batch is 1 and seq the total; of paged keys batch counts pages.
  std::array<Tensor, kTensorCount> tensors;
  Bias bias;
  Mask mask;
  bool sink_gradient;
  Sequences sequences;
  Pages pages;
  Append append;
  bool random_on_device;
  shared::cf_visibility visibility;
  shared::cf_score score;
  float dropout;
  std::uint32_t drop_threshold;  // of 65536

  const Tensor& tensor(TensorId id) const { return tensors[static_cast<std::size_t>(id)]; }
  std::int64_t group() const { return heads_q / heads_kv; }
  bool has(shared::uint feature) const { return (score.features & feature) != 0; }
  // Elements from the first of an option's buffer to one past the last; 0: no pass uses it.
  std::int64_t option_extent(OptionId id) const;
  std::size_t option_element(OptionId id) const;  // bytes
  bool runs(Pass pass) const {
    return pass == Pass::forward ? forward : pass == Pass::backward ? backward : append.given;
  }
  // Whether a run of the pass needs the buffer. What is empty none needs.
  bool uses(TensorId id, Pass pass) const;
  bool uses(OptionId id, Pass pass) const;
  bool uses(OptionId id, bool backward_pass) const {
    return uses(id, backward_pass ? Pass::backward : Pass::forward);
  }
  // Multiply-adds count twice; of one dense product of the score's shape with the given width.
  double product_flops(std::int64_t width) const {
    return 2.0 * static_cast<double>(batch * heads_q) * static_cast<double>(seq_q) *
           static_cast<double>(seq_k) * static_cast<double>(width);
  }
};

Status check_problem(const crossflash_problem& in, Problem* out);

// Refuses the problem if it has an option, by name: for a backend that has none of them.
Status refuse_options(const Problem& problem, const char* backend);

// The random state of one run; refuses an offset that does not fit.
Status check_random_state(const Problem& problem, std::uint64_t seed, std::uint64_t offset,
                          shared::cf_dropout* out);

// Strides of a contiguous [batch, seq, heads, width].
crossflash_strides contiguous_strides(std::int64_t seq, std::int64_t heads, std::int64_t width);

}  // namespace crossflash
