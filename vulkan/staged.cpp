// SPDX-License-Identifier: MIT
// staged.cpp: the variant that works in an arena. A box of the problem (batches, key heads, one
// query head of each group, queries, keys) is gathered into one f32 buffer that fits a storage
// binding, computed there, and its results are scattered back. The kernel's loop over keys or
// queries becomes a loop over boxes, the state carrying the accumulators. What dQ leaves for dK/dV
// is scattered to and gathered from the workspace before the arena.
//
//   arena: for each tensor of the kernel [batches][heads][rows][width]; of the options bias and
//   mask
//          [batches][heads][queries][keys], with 1 in the place of axes that share an element, and
//          for each head its slope and its sink
#include <algorithm>
#include <span>

#include "common/half.h"
#include "common/shared/mask.h"
#include "vulkan/plan.h"

namespace crossflash::vulkan {
namespace {

using shared::cf_slice;
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
  // Up to a dozen tensors, each padded to the alignment, and the binding's own.
  const std::uint64_t padding = 16 * plan->caps.alignment;
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
    const std::int64_t slots = budget / whole_head;
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
  kernel.options.arena_alibi = at(box.heads);
  kernel.options.arena_sink = at(box.heads);
  kernel.options.arena_random = at(4);
  return words;
}

Status plan_kernel(KernelId id, VulkanPlan* plan, std::uint64_t* bytes) {
  const Problem& p = plan->problem;
  KernelPlan& kernel = plan->kernel(id);
  const bool owns_keys = contents_of(id, p).owns_keys;
  CROSSFLASH_TRY(choose_box(id, plan));
  CROSSFLASH_TRY(choose_kernel_tile(id, plan));
  // A workgroup's loop must not outlast a dispatch.
  const double per_element = flops_per_loop_element(id, p, kernel.tile);
  std::int64_t& loop = owns_keys ? kernel.box.queries : kernel.box.keys;
  loop = std::min(loop, longest_loop(id, *plan));
  kernel.flops_per_group = per_element * static_cast<double>(loop);
  kernel.block = make_block(p);
  kernel.block.head_step = 1;
  *bytes = std::max(*bytes, 4 * lay_out(id, plan));
  return {};
}

// Walks over the boxes of one kernel and emits their steps.
class Stager {
 public:
  Stager(const VulkanPlan& plan, KernelId id, Sink& sink)
      : plan_(plan), problem_(plan.problem), id_(id), kernel_(plan.kernel(id)), sink_(sink) {
    slice_.base_delta = kernel_.delta;
    slice_.base_mend = kernel_.mend;
    slice_.base_state = kernel_.state;
    const auto base = [&](TensorId t) { return kernel_.arena[static_cast<std::size_t>(t)]; };
    slice_.base_q = base(TensorId::q);
    slice_.base_k = base(TensorId::k);
    slice_.base_v = base(TensorId::v);
    slice_.base_o = base(TensorId::o);
    slice_.base_grad_o = base(TensorId::grad_o);
    slice_.base_grad_q = base(TensorId::grad_q);
    slice_.base_grad_k = base(TensorId::grad_k);
    slice_.base_grad_v = base(TensorId::grad_v);
    slice_.base_lse = base(TensorId::lse);
    slice_.group_count = 1;
  }

  void run() {
    for (std::int64_t b = 0; b < problem_.batch; b += kernel_.box.batches)
      for (std::int64_t h = 0; h < problem_.heads_kv; h += kernel_.box.heads) {
        batches_ = std::min(kernel_.box.batches, problem_.batch - b);
        slice_.batch_begin = static_cast<uint>(b);
        slice_.head_begin = static_cast<uint>(h);
        slice_.heads = static_cast<uint>(std::min(kernel_.box.heads, problem_.heads_kv - h));
        if (id_ == KernelId::backward_dkv)
          own_keys();
        else
          own_queries();
      }
  }

 private:
  // Forward and dQ: each box of queries walks over the keys it sees.
  void own_queries() {
    for (std::int64_t member = 0; member < problem_.group(); ++member) {
      slice_.group_begin = static_cast<uint>(member);
      for (std::int64_t i = 0; i < problem_.seq_q; i += kernel_.box.queries) {
        set_queries(i, std::min(i + kernel_.box.queries, problem_.seq_q));
        gather_queries();
        const int begin = shared::cf_keys_begin(problem_.visibility, slice_.query_begin);
        const int end = shared::cf_keys_end(problem_.visibility, slice_.query_end);
        const auto chunk = static_cast<int>(kernel_.box.keys);
        slice_.carry = 0;
        if (begin >= end) {  // nothing is seen: the kernel writes zeros
          slice_.key_begin = slice_.key_end = 0;
          compute();
        }
        for (int j = begin & ~7; begin < end && j < end; j += chunk) {  // whole dropout blocks
          slice_.key_begin = j;
          slice_.key_end = std::min(j + chunk, end);
          gather_keys();
          set_carry(j <= begin, slice_.key_end == end);
          compute();
        }
        if (id_ == KernelId::forward) {
          move(TensorId::o, true);
          move(TensorId::lse, true);
        } else {
          move(TensorId::grad_q, true);
          move_saved_rows(true);
        }
        sink_.barrier();
      }
    }
  }

  // dK/dV: each box of keys walks over the query heads of the group and the queries that see it.
  void own_keys() {
    for (std::int64_t j = 0; j < problem_.seq_k; j += kernel_.box.keys) {
      slice_.key_begin = static_cast<int>(j);
      slice_.key_end = static_cast<int>(std::min(j + kernel_.box.keys, problem_.seq_k));
      gather_keys();
      const auto seq_q = static_cast<int>(problem_.seq_q);
      const int begin = shared::cf_queries_begin(problem_.visibility, slice_.key_begin, seq_q);
      const int end = shared::cf_queries_end(problem_.visibility, slice_.key_end, seq_q);
      const auto chunk = static_cast<int>(kernel_.box.queries);
      slice_.carry = 0;
      slice_.group_begin = 0;
      if (begin >= end) {
        set_queries(0, 0);
        compute();
      }
      for (std::int64_t member = 0; begin < end && member < problem_.group(); ++member)
        for (int i = begin; i < end; i += chunk) {
          slice_.group_begin = static_cast<uint>(member);
          set_queries(i, std::min(i + chunk, end));
          gather_queries();
          set_carry(member == 0 && i == begin,
                    member + 1 == problem_.group() && slice_.query_end == end);
          compute();
        }
      move(TensorId::grad_k, true);
      move(TensorId::grad_v, true);
      sink_.barrier();
    }
  }

  void set_queries(std::int64_t begin, std::int64_t end) {
    slice_.query_begin = static_cast<int>(begin);
    slice_.query_end = static_cast<int>(end);
  }

  void set_carry(bool first, bool last) {
    slice_.carry = (first ? 0u : shared::CF_CARRY_IN) | (last ? 0u : shared::CF_CARRY_OUT);
  }

  void gather_keys() {
    move(TensorId::k, false);
    move(TensorId::v, false);
  }

  void gather_queries() {
    move(TensorId::q, false);
    if (id_ == KernelId::forward) return;
    move(TensorId::grad_o, false);
    move(TensorId::o, false);
    move(TensorId::lse, false);
    if (id_ == KernelId::backward_dkv) move_saved_rows(false);
    sink_.barrier();
    // The row dots of this kernel's arena: a row dot with this kernel's block and bases.
    emit_groups(plan_, KernelId::backward_dot, id_, slice_, batches_, sink_);
    sink_.barrier();
  }

  void compute() {
    if (plan_.options) gather_options();
    sink_.barrier();
    emit_groups(plan_, id_, id_, slice_, batches_, sink_);
    sink_.barrier();
  }

  // What the options have for this box.
  void gather_options() {
    const Problem& p = problem_;
    const shared::cf_options& o = kernel_.options;
    const std::int64_t keys = slice_.key_end - slice_.key_begin;
    if (p.bias.given && keys > 0)
      gather_scores(OptionId::bias, p.bias.strides, o.bias, o.arena_bias, slice_.key_begin, keys);
    if (p.mask.given && keys > 0) {
      const std::int64_t first = slice_.key_begin / 32;
      gather_scores(OptionId::mask, p.mask.strides, o.mask, o.arena_mask, first,
                    (slice_.key_end - 1) / 32 - first + 1);
    }
    if (p.has(shared::CF_ALIBI)) gather_heads(OptionId::alibi, o.arena_alibi);
    if (p.has(shared::CF_SINK)) gather_heads(OptionId::sink, o.arena_sink);
    if (p.random_on_device) {
      Window w{};
      w.count = {1, 1, 1};
      w.width = 4;
      w.arena_first = o.arena_random;
      emit_window(words_of(4), {}, OptionId::random, false, w);
    }
  }

  // Elements or words [first, first + row) of the rows of the box's queries.
  void gather_scores(OptionId id, const ScoreStrides& from, const shared::cf_score_strides& to,
                     std::uint32_t arena, std::int64_t first, std::int64_t row) {
    const std::int64_t queries = slice_.query_end - slice_.query_begin;
    if (queries <= 0) return;
    Tensor t = words_of(problem_.option_extent(id));
    if (id == OptionId::bias) t.dtype = problem_.bias.dtype;
    Window w{};
    const auto extent = [](std::int64_t stride, std::int64_t n) { return stride != 0 ? n : 1; };
    w.count = {extent(from.batch, batches_), extent(from.head, slice_.heads),
               extent(from.seq_q, queries)};
    w.tensor = {from.batch, from.head * problem_.group(), from.seq_q};
    w.arena = {to.batch, to.head, to.seq_q};
    w.width = extent(from.seq_k, row);
    w.first = slice_.batch_begin * from.batch + query_head() * from.head +
              slice_.query_begin * from.seq_q + first * from.seq_k;
    w.arena_first = arena;
    emit_window(t, {}, id, false, w);
  }

  // A number for each of the box's heads.
  void gather_heads(OptionId id, std::uint32_t arena) {
    Window w{};
    w.count = {1, 1, slice_.heads};
    w.tensor = {0, 0, problem_.group()};
    w.arena = {0, 0, 1};
    w.width = 1;
    w.first = query_head();
    w.arena_first = arena;
    emit_window(words_of(problem_.heads_q), {}, id, false, w);
  }

  // The box's first query head.
  std::int64_t query_head() const {
    return slice_.head_begin * problem_.group() + slice_.group_begin;
  }

  // So many 32-bit words as a tensor, which are copied as they are.
  static Tensor words_of(std::int64_t count) {
    return {CROSSFLASH_F32, 1, 1, 1, count, {count, count, count}};
  }

  void move(TensorId id, bool scatter) {
    const bool key_side =
        id == TensorId::k || id == TensorId::v || id == TensorId::grad_k || id == TensorId::grad_v;
    move(problem_.tensor(id), id, key_side, kernel_.arena[static_cast<std::size_t>(id)], scatter);
  }

  void move_saved_rows(bool scatter) { move(plan_.saved_rows, {}, false, kernel_.mend, scatter); }

  // Moves this box's part of a tensor, in windows that a binding covers.
  void move(const Tensor& t, std::optional<TensorId> id, bool key_side, std::uint32_t arena,
            bool scatter) {
    const std::int64_t group = key_side ? 1 : problem_.group();
    const std::int64_t row = key_side ? slice_.key_begin : slice_.query_begin;
    const std::int64_t rows = (key_side ? slice_.key_end : slice_.query_end) - row;
    const std::int64_t head = slice_.head_begin * group + (key_side ? 0 : slice_.group_begin);
    const std::int64_t arena_row = kernel_rows(key_side) * t.width;
    Window w;
    w.count = {batches_, slice_.heads, rows};
    w.tensor = {t.strides.batch, t.strides.head * group, t.strides.seq};
    w.arena = {kernel_.box.heads * arena_row, arena_row, t.width};
    w.first = slice_.batch_begin * t.strides.batch + head * t.strides.head + row * t.strides.seq;
    w.arena_first = arena;
    w.width = t.width;
    if (rows > 0) emit_window(t, id, {}, scatter, w);
  }

  std::int64_t kernel_rows(bool key_side) const {
    return key_side ? kernel_.box.keys : kernel_.box.queries;
  }

  struct Window {
    std::array<std::int64_t, 3> count, tensor, arena;
    std::int64_t first, arena_first;
    std::int64_t width;  // of the innermost axis
  };

  void emit_window(const Tensor& t, std::optional<TensorId> id, std::optional<OptionId> option,
                   bool scatter, const Window& w) {
    std::int64_t span = w.width, arena_span = w.width;
    std::size_t longest = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      span += (w.count[axis] - 1) * w.tensor[axis];
      arena_span += (w.count[axis] - 1) * w.arena[axis];
      if ((w.count[axis] - 1) * w.tensor[axis] > (w.count[longest] - 1) * w.tensor[longest])
        longest = axis;
    }
    const auto covered = static_cast<std::int64_t>(plan_.caps.range - plan_.caps.alignment - 4);
    if (span > covered / static_cast<std::int64_t>(dtype_size(t.dtype))) {
      Window low = w, high = w;
      low.count[longest] /= 2;
      high.count[longest] -= low.count[longest];
      high.first += low.count[longest] * w.tensor[longest];
      high.arena_first += low.count[longest] * w.arena[longest];
      emit_window(t, id, option, scatter, low);
      emit_window(t, id, option, scatter, high);
      return;
    }
    const auto u = [](std::int64_t n) { return static_cast<uint>(n); };
    const auto stride = [&](std::size_t axis) {  // of an axis of 1 it may be anything
      return w.count[axis] > 1 ? u(w.tensor[axis]) : 0u;
    };
    CopyStep step{};
    step.tensor = t;
    step.id = id;
    step.option = option;
    step.scatter = scatter;
    step.first = w.first;
    step.span = span;
    step.arena_first = w.arena_first;
    step.arena_span = arena_span;
    step.copy = {u(w.count[0]),
                 u(w.count[1]),
                 u(w.count[2]),
                 u(w.width),
                 stride(0),
                 stride(1),
                 stride(2),
                 0,
                 u(w.arena[0]),
                 u(w.arena[1]),
                 u(w.arena[2]),
                 0,
                 0,
                 0,
                 0,
                 0};
    step.elements = static_cast<std::uint64_t>(w.count[0] * w.count[1] * w.count[2] * w.width);
    sink_.copy(step);
  }

  const VulkanPlan& plan_;
  const Problem& problem_;
  const KernelId id_;
  const KernelPlan& kernel_;
  Sink& sink_;
  cf_slice slice_{};
  std::int64_t batches_ = 0;
};

// The host gathers rows, so it must know where they are; a gradient that boxes share would need
// sums beside the arena.
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
  if (p.bias.gradient)
    return refused("bias", CROSSFLASH_WITH_GRADIENT, "its gradient needs tensors as they lie");
  if (p.sink_gradient)
    return refused("sink", CROSSFLASH_WITH_GRADIENT, "its gradient needs tensors as they lie");
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
    plan->saved_rows = p.tensor(TensorId::lse);
    const std::uint64_t alignment = plan->caps.alignment;
    const auto saved = 4 * static_cast<std::uint64_t>(plan->saved_rows.extent());
    plan->arena_offset = (saved + alignment - 1) / alignment * alignment;
    plan->backward_workspace += plan->arena_offset;
  }
  return {};
}

void emit_staged(const VulkanPlan& plan, Pass pass, Sink& sink) {
  if (pass == Pass::forward) {
    Stager(plan, KernelId::forward, sink).run();
  } else {
    Stager(plan, KernelId::backward_dq, sink).run();
    Stager(plan, KernelId::backward_dkv, sink).run();
  }
}

}  // namespace crossflash::vulkan
