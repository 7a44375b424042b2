// SPDX-License-Identifier: MIT
// staged.cpp: the variant that works in an arena. A box of the problem (batches, key heads, one
// query head of each group, queries, keys) is gathered into one f32 buffer that fits a storage
// binding, computed there, and its results are scattered back. The kernel's loop over keys or
// queries becomes a loop over boxes, the state carrying the accumulators. What dQ leaves for dK/dV
// is scattered to and gathered from the workspace before the arena.
//
//   arena: for each tensor of the kernel [batches][heads][rows][width]; of bias and mask
//          [batches][heads][queries][keys], with 1 in the place of axes that share an element; for
//          each head its slope and its sink
#include <algorithm>
#include <span>

#include "common/half.h"
#include "vulkan/staged.h"

namespace crossflash::vulkan {
namespace {

using shared::cf_tensor;
using shared::uint;

constexpr std::uint64_t kMaxArenaBytes = std::uint64_t{64} << 20;
constexpr std::uint32_t kBindings = 2;  // a tensor's window and the arena

// The tensors a kernel finds in its arena, and the words of one row of its state.
struct Contents {
  std::span<const TensorId> queries, keys;
  bool rows;  // delta and mend, one number a query each
  std::int64_t state;
  bool owns_keys;  // tiles are over keys, loops over queries
};

Contents contents_of(KernelId id, const Problem& p) {
  using T = TensorId;
  static constexpr T forward_q[] = {T::q, T::o, T::lse};
  static constexpr T dkv_q[] = {T::q, T::grad_o, T::o, T::lse};
  static constexpr T dq_q[] = {T::q, T::grad_o, T::o, T::lse, T::grad_q};
  static constexpr T kv[] = {T::k, T::v};
  static constexpr T dkv_k[] = {T::k, T::v, T::grad_k, T::grad_v};
  if (id == KernelId::forward) return {forward_q, kv, false, p.d_v + 2, false};
  if (id == KernelId::backward_bias) return {dkv_q, kv, true, 0, false};
  if (id == KernelId::backward_dkv) return {dkv_q, dkv_k, true, p.d + p.d_v, true};
  return {dq_q, kv, true, p.d + 1, false};
}

cf_tensor* block_of(KernelPlan* kernel, TensorId id) {
  shared::cf_problem& b = kernel->block;
  cf_tensor* const all[kTensorCount] = {&b.q,      &b.k,      &b.v,      &b.o,     &b.lse,
                                        &b.grad_o, &b.grad_q, &b.grad_k, &b.grad_v};
  return all[static_cast<std::size_t>(id)];
}

std::int64_t row_words(const Problem& p, std::span<const TensorId> tensors) {
  std::int64_t words = 0;
  for (const TensorId id : tensors) words += p.tensor(id).width;
  return words;
}

// The words of a row of the mask that so many keys may touch.
std::int64_t mask_words(std::int64_t keys) { return keys / 32 + 2; }

// Words of the options of one head in the arena.
std::int64_t option_words(const Problem& p, std::int64_t queries, std::int64_t keys) {
  const ScoreStrides& bias = p.bias.strides;
  std::int64_t words = 2 + 4;  // slope, sink, random state
  if (p.bias.given) words += (bias.seq_q != 0 ? queries : 1) * (bias.seq_k != 0 ? keys : 1);
  if (p.bias.gradient) words += (bias.seq_q != 0 ? queries : 1) * (bias.seq_k != 0 ? keys : 1);
  if (p.sink_gradient) words += p.heads_q;
  if (p.mask.given) words += (p.mask.strides.seq_q != 0 ? queries : 1) * mask_words(keys);
  return words;
}

std::int64_t round_down(std::int64_t n, std::int64_t unit) { return n / unit * unit; }

// The largest box whose tensors fit the arena: whole sequences of as many heads as fit, else half
// the arena for each side of one head.
Status choose_box(KernelId id, VulkanPlan* plan) {
  const Problem& p = plan->problem;
  const Contents c = contents_of(id, p);
  const std::uint64_t bytes = std::min(plan->caps.range, kMaxArenaBytes) / 4 * 4;
  // Up to a dozen tensors, each padded to the alignment, the binding's own, and options.
  const std::uint64_t padding = (plan->options ? 22 : 16) * plan->caps.alignment;
  const auto budget = static_cast<std::int64_t>(bytes > padding ? bytes - padding : 0) / 4;
  const std::int64_t query_words =
      row_words(p, c.queries) + (c.rows ? 2 : 0) + (c.owns_keys ? 0 : c.state);
  const std::int64_t key_words = row_words(p, c.keys) + (c.owns_keys ? c.state : 0);
  const std::int64_t seq_q = std::max<std::int64_t>(p.seq_q, 1);
  const std::int64_t seq_k = std::max<std::int64_t>(p.seq_k, 1);

  Box& box = plan->kernel(id).box;
  box.members = 1;
  const auto words = [&](std::int64_t queries, std::int64_t keys) {
    return queries * query_words + keys * key_words +
           (plan->options ? option_words(p, queries, keys) : 0);
  };
  const std::int64_t whole_head = words(seq_q, seq_k);
  if (whole_head <= budget) {
    const std::int64_t slots = id == KernelId::backward_bias ? 1 : budget / whole_head;
    box.heads = std::min(p.heads_kv, slots);
    box.batches = std::max<std::int64_t>(std::min(p.batch, slots / box.heads), 1);
    box.queries = seq_q;
    box.keys = seq_k;
    return {};
  }
  box.heads = box.batches = 1;
  box.keys = std::min(seq_k, round_down(budget / 2 / key_words, 8));
  box.queries = std::min(seq_q, (budget - box.keys * key_words) / query_words);
  if (box.queries < seq_q && box.queries >= 8) box.queries = round_down(box.queries, 8);
  if (box.queries > 0 && box.keys < seq_k)  // what the queries left over
    box.keys = std::min(seq_k, round_down((budget - box.queries * query_words) / key_words, 8));
  // Bias and mask grow with the product of both sides.
  while (words(box.queries, box.keys) > budget && std::max(box.queries, box.keys) > 8) {
    std::int64_t& longer = box.queries > box.keys ? box.queries : box.keys;
    longer = std::max<std::int64_t>(round_down(longer / 2, 8), 8);
  }
  if (words(box.queries, box.keys) > budget) box.keys = 0;
  if (box.keys < 1 || box.queries < 1)
    return unsupported("a storage binding covers {} bytes; the {} kernel needs more for one tile",
                       plan->caps.range, kKernelNames[std::size_t(id)]);
  return {};
}

// Lays the box's tensors out in the arena; returns its words.
std::uint64_t lay_out(KernelId id, VulkanPlan* plan) {
  const Contents c = contents_of(id, plan->problem);
  KernelPlan& kernel = plan->kernel(id);
  const Box& box = kernel.box;
  const std::int64_t slots = box.batches * box.heads;
  std::uint64_t words = 0;
  // Each starts at an aligned offset, so that copies into different ones bind disjoint windows.
  const std::uint64_t unit = plan->caps.alignment / 4;
  const auto take = [&](std::int64_t rows, std::int64_t width) {
    const auto at = static_cast<std::uint32_t>(words);
    words += (static_cast<std::uint64_t>(slots * rows * width) + unit - 1) / unit * unit;
    return at;
  };
  const auto place = [&](std::span<const TensorId> tensors, std::int64_t rows) {
    for (const TensorId tensor : tensors) {
      const std::int64_t width = plan->problem.tensor(tensor).width;
      kernel.arena[static_cast<std::size_t>(tensor)] = take(rows, width);
      *block_of(&kernel, tensor) = {static_cast<uint>(box.heads * rows * width),
                                    static_cast<uint>(width), static_cast<uint>(rows * width),
                                    static_cast<uint>(width)};
    }
  };
  place(c.queries, box.queries);
  place(c.keys, box.keys);
  if (c.rows) {
    kernel.delta = take(box.queries, 1);
    kernel.mend = take(box.queries, 1);
  }
  kernel.state = take(c.owns_keys ? box.keys : box.queries, c.state);
  if (!plan->options) return words;

  const Problem& p = plan->problem;
  kernel.options = make_options(p);
  const auto at = [&words, unit](std::int64_t count) {
    const auto first = static_cast<uint>(words);
    words += (static_cast<std::uint64_t>(count) + unit - 1) / unit * unit;
    return first;
  };
  // Compact, with stride 0 where the tensor has it.
  const auto place_scores = [&](const ScoreStrides& of, std::int64_t row, uint* first) {
    shared::cf_score_strides s{0, 0, 0, of.seq_k != 0 ? 1u : 0u};
    std::int64_t size = of.seq_k != 0 ? row : 1;
    const auto axis = [&size](std::int64_t stride, std::int64_t extent, uint* own) {
      if (stride == 0) return;
      *own = static_cast<uint>(size);
      size *= extent;
    };
    axis(of.seq_q, box.queries, &s.seq_q);
    axis(of.head, box.heads, &s.head);
    axis(of.batch, box.batches, &s.batch);
    *first = at(size);
    return s;
  };
  if (p.bias.given)
    kernel.options.bias = place_scores(p.bias.strides, box.keys, &kernel.options.arena_bias);
  if (p.mask.given)
    kernel.options.mask =
        place_scores(p.mask.strides, mask_words(box.keys), &kernel.options.arena_mask);
  if (id == KernelId::backward_bias) {
    kernel.options.grad_bias =
        place_scores(p.bias.grad_strides, box.keys, &kernel.options.arena_grad_bias);
    kernel.options.batch = 1;
  }
  if (id == KernelId::backward_dq && p.sink_gradient)
    kernel.options.arena_grad_sink = at(p.heads_q);
  kernel.options.arena_alibi = at(box.heads);
  kernel.options.arena_sink = at(box.heads);
  kernel.options.arena_random = at(4);
  return words;
}

// Shortens dBias' box until a workgroup's walk over it does not outlast a dispatch.
void shorten_walk(VulkanPlan* plan) {
  KernelPlan& kernel = plan->kernel(KernelId::backward_bias);
  const std::int64_t most = longest_loop(KernelId::backward_bias, *plan) / kernel.tile.tile_cols();
  const ScoreStrides& s = plan->problem.bias.grad_strides;
  const auto walk = [&] { return BiasWalk(*plan, kernel.box.queries, kernel.box.keys).shared; };
  while (walk() > std::max<std::int64_t>(most, 1)) {
    const bool keys = s.seq_k == 0 && kernel.box.keys > kernel.tile.tile_cols();
    std::int64_t& rows = keys ? kernel.box.keys : kernel.box.queries;
    const std::int64_t unit = keys ? kernel.tile.tile_cols() : kernel.tile.tile_rows();
    rows = std::max(round_down(rows / 2, unit), unit);
  }
  kernel.walk = walk();
}

Status plan_kernel(KernelId id, VulkanPlan* plan, std::uint64_t* bytes) {
  const Problem& p = plan->problem;
  KernelPlan& kernel = plan->kernel(id);
  CROSSFLASH_TRY(choose_box(id, plan));
  CROSSFLASH_TRY(choose_kernel_tile(id, plan));
  // A workgroup's loop must not outlast a dispatch.
  std::int64_t elements = 0;
  if (id == KernelId::backward_bias) {
    shorten_walk(plan);
    elements = kernel.walk * kernel.tile.tile_cols();
  } else {
    std::int64_t& loop = contents_of(id, p).owns_keys ? kernel.box.queries : kernel.box.keys;
    elements = loop = std::min(loop, longest_loop(id, *plan));
  }
  kernel.flops_per_group =
      flops_per_loop_element(id, p, kernel.tile) * static_cast<double>(elements);
  kernel.block = make_block(p);
  kernel.block.head_step = 1;
  *bytes = std::max(*bytes, 4 * lay_out(id, plan));
  return {};
}

// The host gathers rows, so it must know where they are.
Status check_options(const Problem& p) {
  const auto refused = [](const char* name, int value, const char* why) {
    return unsupported("{} is {}; {}", name, value, why);
  };
  constexpr const char* kOnDevice = "the host, which gathers rows, does not know where they lie";
  if (p.sequences.q != CROSSFLASH_ROWS_ALL)
    return refused("rows_q", static_cast<int>(p.sequences.q), kOnDevice);
  if (p.sequences.k != CROSSFLASH_ROWS_ALL)
    return refused("rows_k", static_cast<int>(p.sequences.k), kOnDevice);
  if (p.append.given)
    return refused("passes", p.forward ? 5 : 4, "CROSSFLASH_APPEND needs tensors as they lie");
  if (p.pages.size > 0) return refused("page_size", static_cast<int>(p.pages.size), kOnDevice);
  return {};
}

}  // namespace

Status plan_staged(VulkanPlan* plan) {
  const Problem& p = plan->problem;
  if (plan->caps.storage_buffers < kBindings)
    return unsupported("storage buffers of a kernel are {}; it needs {}",
                       plan->caps.storage_buffers, kBindings);
  if (plan->caps.range < 16384)
    return unsupported("a storage binding covers {} bytes; at least 16384 are needed",
                       plan->caps.range);
  CROSSFLASH_TRY(check_options(p));
  if (p.forward) CROSSFLASH_TRY(plan_kernel(KernelId::forward, plan, &plan->forward_workspace));
  if (p.backward) {
    CROSSFLASH_TRY(choose_kernel_tile(KernelId::backward_dot, plan));
    KernelPlan& dot = plan->kernel(KernelId::backward_dot);
    dot.flops_per_group =
        flops_per_loop_element(KernelId::backward_dot, p, dot.tile) * dot.tile.threads;
    for (const KernelId id : {KernelId::backward_dkv, KernelId::backward_dq})
      CROSSFLASH_TRY(plan_kernel(id, plan, &plan->backward_workspace));
    if (p.sink_gradient) CROSSFLASH_TRY(choose_kernel_tile(KernelId::backward_sink, plan));
    if (p.option_extent(OptionId::grad_bias) > 0)
      CROSSFLASH_TRY(plan_kernel(KernelId::backward_bias, plan, &plan->backward_workspace));
    plan->saved_rows = p.tensor(TensorId::lse);
    const std::uint64_t alignment = plan->caps.alignment;
    const auto saved = 4 * static_cast<std::uint64_t>(plan->saved_rows.extent());
    plan->arena_offset = (saved + alignment - 1) / alignment * alignment;
    plan->backward_workspace += plan->arena_offset;
  }
  return {};
}

}  // namespace crossflash::vulkan
