// SPDX-License-Identifier: MIT
// stager.cpp: the walk of the staged variant over its boxes (staged.cpp): gather what a box needs
// into the arena, compute there, scatter its results; as steps, for whoever records or counts them.
#include <algorithm>

#include "common/half.h"
#include "common/shared/mask.h"
#include "vulkan/staged.h"

namespace crossflash::vulkan {
namespace {

using shared::cf_slice;
using shared::uint;

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
    if (id_ == KernelId::backward_bias) return walk_bias();
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
    if (id_ == KernelId::backward_dq && problem_.sink_gradient) {
      Window w{};
      w.count = {1, 1, 1};
      w.width = problem_.heads_q;
      w.arena_first = kernel_.options.arena_grad_sink;
      sink_.barrier();
      emit_window(words_of(problem_.heads_q), {}, OptionId::grad_sink, true, w);
      sink_.barrier();
    }
  }

 private:
  // Forward and dQ: each box of queries walks over the keys it sees.
  void own_queries() {
    for (std::int64_t member = 0; member < problem_.group(); ++member) {
      slice_.group_begin = static_cast<uint>(member);
      if (problem_.seq_q == 0 && problem_.sink_gradient) {  // zeros
        set_queries(0, 0);
        gather_options();
        add_sink();
      }
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
          if (problem_.sink_gradient) add_sink();
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

  // This box's part of the gradient of its heads' sinks; the first box of a head starts it.
  void add_sink() {
    ComputeStep step{KernelId::backward_sink, id_, slice_, slice_.heads, 0};
    step.slice.group_count = static_cast<uint>(batches_);
    step.slice.carry =
        slice_.batch_begin == 0 && slice_.query_begin == 0 ? 0u : shared::CF_CARRY_IN;
    sink_.barrier();
    emit_within_groups(step);
    sink_.barrier();
  }

  // dBias: boxes of one head; those that share elements follow each other and add to them.
  void walk_bias() {
    const ScoreStrides& s = problem_.bias.grad_strides;
    struct Axis {
      std::int64_t stride, extent, box;
      std::int64_t steps() const { return (extent + box - 1) / box; }
    };
    const std::array<Axis, 4> axes{{{s.seq_k, problem_.seq_k, kernel_.box.keys},
                                    {s.seq_q, problem_.seq_q, kernel_.box.queries},
                                    {s.head, problem_.heads_q, 1},
                                    {s.batch, problem_.batch, 1}}};
    std::int64_t own = 1, shared = 1;
    for (const Axis& axis : axes) (axis.stride != 0 ? own : shared) *= axis.steps();
    batches_ = 1;
    slice_.heads = 1;
    for (std::int64_t n = 0; n < own; ++n) {
      for (std::int64_t m = 0; m < shared; ++m) {
        std::int64_t rest[2] = {n, m};
        std::array<std::int64_t, 4> at{};
        for (std::size_t a = 0; a < axes.size(); ++a) {
          std::int64_t& r = rest[axes[a].stride != 0 ? 0 : 1];
          at[a] = r % axes[a].steps() * axes[a].box;
          r /= axes[a].steps();
        }
        slice_.key_begin = static_cast<int>(at[0]);
        slice_.key_end = static_cast<int>(std::min(at[0] + kernel_.box.keys, problem_.seq_k));
        set_queries(at[1], std::min(at[1] + kernel_.box.queries, problem_.seq_q));
        slice_.head_begin = static_cast<uint>(at[2] / problem_.group());
        slice_.group_begin = static_cast<uint>(at[2] % problem_.group());
        slice_.batch_begin = static_cast<uint>(at[3]);
        add_bias(m == 0);
      }
      scatter_bias();
    }
  }

  void add_bias(bool first) {
    gather_keys();
    gather_queries();
    gather_options();
    sink_.barrier();
    const BiasWalk walk(plan_, slice_.query_end - slice_.query_begin,
                        slice_.key_end - slice_.key_begin);
    ComputeStep step{id_, id_, slice_, static_cast<std::uint32_t>(walk.own),
                     kernel_.flops_per_group};
    step.slice.group_count = static_cast<uint>(walk.shared);
    step.slice.carry = first ? 0u : shared::CF_CARRY_IN;
    emit_within_groups(step);
    sink_.barrier();
  }

  void scatter_bias() {
    const ScoreStrides& to = problem_.bias.grad_strides;
    const shared::cf_score_strides& from = kernel_.options.grad_bias;
    Tensor t = words_of(problem_.option_extent(OptionId::grad_bias));
    t.dtype = problem_.bias.dtype;
    Window w{};
    w.count = {1, 1, to.seq_q != 0 ? slice_.query_end - slice_.query_begin : 1};
    w.tensor = {0, 0, to.seq_q};
    w.arena = {0, 0, from.seq_q};
    w.width = to.seq_k != 0 ? slice_.key_end - slice_.key_begin : 1;
    w.first = slice_.batch_begin * to.batch + query_head() * to.head +
              slice_.query_begin * to.seq_q + slice_.key_begin * to.seq_k;
    w.arena_first = kernel_.options.arena_grad_bias;
    emit_window(t, {}, OptionId::grad_bias, true, w);
    sink_.barrier();
  }

  // A step's workgroups in dispatches that the device takes and the watchdog bears; `flops` is one
  // workgroup's.
  void emit_within_groups(const ComputeStep& step) {
    const double affordable = plan_.caps.flops_per_dispatch / std::max(step.flops, 1.0);
    const auto most = static_cast<std::uint32_t>(
        std::clamp(affordable, 1.0, static_cast<double>(plan_.caps.groups)));
    for (std::uint32_t first = 0; first < step.groups; first += most) {
      ComputeStep part = step;
      part.slice.first_group = first;
      part.groups = std::min(most, step.groups - first);
      part.flops = step.flops * part.groups;
      sink_.compute(part);
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
    if (id_ != KernelId::backward_dq) move_saved_rows(false);
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

}  // namespace

void emit_staged(const VulkanPlan& plan, Pass pass, Sink& sink) {
  if (pass == Pass::forward) {
    Stager(plan, KernelId::forward, sink).run();
  } else {
    Stager(plan, KernelId::backward_dq, sink).run();
    Stager(plan, KernelId::backward_dkv, sink).run();
    if (plan.problem.option_extent(OptionId::grad_bias) > 0)
      Stager(plan, KernelId::backward_bias, sink).run();
  }
}

}  // namespace crossflash::vulkan
