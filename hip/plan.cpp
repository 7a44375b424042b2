// SPDX-License-Identifier: MIT
#include "hip/plan.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "common/half.h"
#include "hip/split.h"

namespace crossflash::hip {
namespace {

constexpr const char* pass_name(KernelPass pass) {
  switch (pass) {
    case KernelPass::forward:
      return "forward";
    case KernelPass::forward_split:
      return "forward over split keys";
    case KernelPass::combine:
      return "combining split keys";
    case KernelPass::row_dot:
      return "row dot";
    case KernelPass::grad_q:
      return "dQ";
    case KernelPass::grad_kv:
      return "dK and dV";
    case KernelPass::grad_all:
      return "all gradients at once";
    case KernelPass::cast_grad_q:
      return "dQ from its sums";
    case KernelPass::grad_bias:
      return "the gradient of the bias";
    case KernelPass::grad_sink:
      return "the gradient of the sinks";
    case KernelPass::append:
      return "appending";
  }
  return "";
}

Status narrow(const char* field, std::int64_t value, int* out) {
  if (value > std::numeric_limits<int>::max())
    return unsupported("{} is {}; hip takes at most {}", field, value,
                       std::numeric_limits<int>::max());
  *out = static_cast<int>(value);
  return {};
}

KernelTensor strides_of(const Tensor& t) {
  return {nullptr, t.strides.batch, t.strides.seq, t.strides.head};
}

KernelTensor strides_of(const Problem& p, TensorId id) { return strides_of(p.tensor(id)); }

KernelScores strides_of(const ScoreStrides& s) {
  return {nullptr, s.batch, s.head, s.seq_q, s.seq_k};
}

Status make_options(const Problem& p, KernelOptions* out) {
  KernelOptions& o = *out;
  o.bias = strides_of(p.bias.strides);
  o.grad_bias = strides_of(p.bias.grad_strides);
  o.bias_dtype = static_cast<shared::uint>(p.bias.dtype);
  o.mask = strides_of(p.mask.strides);
  const auto sequences = [&](crossflash_rows kind, std::int64_t total) -> KernelSequences {
    return {nullptr, kind != CROSSFLASH_ROWS_ALL, kind == CROSSFLASH_ROWS_OFFSETS,
            p.sequences.index_bytes == 8, static_cast<int>(total)};
  };
  o.rows_q = sequences(p.sequences.q, p.sequences.total_q);
  o.rows_k = sequences(p.sequences.k, p.sequences.total_k);
  o.top_left = p.sequences.top_left;
  CROSSFLASH_TRY(narrow("page_size", p.pages.size, &o.pages.size));
  CROSSFLASH_TRY(narrow("pages", p.pages.count, &o.pages.count));
  return narrow("seq_k / page_size", p.pages.of_sequence, &o.pages.of_sequence);
}

Status make_append(const Problem& p, KernelAppend* out) {
  out->new_k = strides_of(p.append.new_k);
  out->new_v = strides_of(p.append.new_v);
  out->rotated_q = strides_of(p.append.rotated_q);
  out->rotary = static_cast<int>(p.append.rotary);
  out->interleaved = p.append.interleaved;
  return narrow("positions", p.append.positions, &out->positions);
}

Status make_arguments(const Problem& p, KernelArguments* out) {
  KernelArguments a{};
  a.visibility = p.visibility;
  a.score = p.score;
  CROSSFLASH_TRY(narrow("batch", p.batch, &a.batch));
  CROSSFLASH_TRY(narrow("heads_q", p.heads_q, &a.heads_q));
  CROSSFLASH_TRY(narrow("seq_q", p.seq_q, &a.seq_q));
  a.group = static_cast<int>(p.group());
  a.d = static_cast<int>(p.d);
  a.d_v = static_cast<int>(p.d_v);
  a.q = strides_of(p, TensorId::q);
  a.k = strides_of(p, TensorId::k);
  a.v = strides_of(p, TensorId::v);
  a.o = strides_of(p, TensorId::o);
  a.grad_o = strides_of(p, TensorId::grad_o);
  a.grad_q = strides_of(p, TensorId::grad_q);
  a.grad_k = strides_of(p, TensorId::grad_k);
  a.grad_v = strides_of(p, TensorId::grad_v);
  CROSSFLASH_TRY(make_options(p, &a.options));
  CROSSFLASH_TRY(make_append(p, &a.append));
  const Strides& rows = p.tensor(TensorId::lse).strides;
  a.lse = a.delta = a.mend = a.base = {nullptr, rows.batch, rows.seq, rows.head};
  a.splits = 1;
  a.state_unit = 1.0f;
  const std::int64_t state = p.d_v + 2;
  a.states = {nullptr, p.heads_q * p.seq_q * state, state, p.seq_q * state};
  const auto padded = [](std::int64_t n) { return (n + kSumUnit - 1) / kSumUnit * kSumUnit; };
  const std::int64_t width = padded(p.d);
  const std::int64_t of_head =
      width *
      (a.options.rows_q.offsets ? packed_sum_row(p.sequences.total_q, p.batch) : padded(p.seq_q));
  a.grad_q_sums = {nullptr, of_head * p.heads_q, width, of_head};
  *out = a;
  return {};
}

// Why this row, which is for the pass and the type, cannot be it; empty if it can.
std::string obstacle(const Variant& row, const HipPlan& plan, const Caps& caps,
                     const std::string& variant) {
  const KernelArguments& a = plan.arguments;
  // These are the same for every score.
  const bool any = variant.empty() || variant == "split" || row.pass == KernelPass::row_dot ||
                   row.pass == KernelPass::combine || row.pass == KernelPass::cast_grad_q ||
                   row.pass == KernelPass::grad_sink || row.pass == KernelPass::append;
  if (!any && row.general != (variant == "general")) return fmt::format("is not {}", variant);
  if (std::max(a.d, a.d_v) > row.head) return fmt::format("head sizes end at {}", row.head);
  if (!accepts(row, row.pass, row.dtype, a)) return "takes a positive scale and no options";
  if (row.shared_bytes > caps.shared_bytes)
    return fmt::format("needs {} bytes of shared memory of {}", row.shared_bytes,
                       caps.shared_bytes);
  if (row.threads > caps.threads)
    return fmt::format("needs {} threads of {}", row.threads, caps.threads);
  if (row.pass == KernelPass::forward_split &&
      std::int64_t{a.seq_q} * a.group > std::numeric_limits<int>::max() - row.rows)
    return "packs the queries of a group into rows that an int counts";
  const std::int64_t count = blocks(row, a);
  if (count > caps.blocks || count > caps.total_threads / row.threads)
    return fmt::format("needs {} blocks", count);
  return {};
}

// The first row of the table that can, or null and why none can.
const Variant* find(KernelPass pass, const Caps& caps, std::span<const Unit> units,
                    const std::string& variant, const HipPlan& plan, std::string* reasons) {
  for (const Unit& unit : units) {
    if (!runs_on(unit.gpus, caps.architecture)) continue;
    for (const Variant& row : *unit.rows) {
      if (row.pass != pass || row.dtype != static_cast<shared::uint>(plan.problem.dtype)) continue;
      const std::string why_not = obstacle(row, plan, caps, variant);
      if (why_not.empty()) return &row;
      *reasons += fmt::format("{}{} {}", reasons->empty() ? "" : ", ", row.name, why_not);
    }
  }
  return nullptr;
}

void add_step(const Variant& row, HipPlan* plan, std::vector<Step>* steps) {
  plan->describe +=
      fmt::format("{} {} ({} threads, {:.1f} KiB shared)", plan->describe.ends_with(':') ? "" : ",",
                  row.name, row.threads, row.shared_bytes / 1024.0);
  steps->push_back({&row, blocks(row, plan->arguments)});
}

Status choose(KernelPass pass, const Caps& caps, std::span<const Unit> units,
              const std::string& variant, HipPlan* plan, std::vector<Step>* steps) {
  std::string reasons;
  const Variant* row = find(pass, caps, units, variant, *plan, &reasons);
  if (row != nullptr) {
    add_step(*row, plan, steps);
    return {};
  }
  if (reasons.empty())
    return unsupported("dtype is {}; hip has no kernel for {} of it on {}",
                       dtype_name(plan->problem.dtype), pass_name(pass), caps.architecture);
  return unsupported("no kernel for {} on {} can: {}", pass_name(pass), caps.architecture, reasons);
}

// A part of a pass's workspace: so many batches of these rows.
struct Part {
  KernelRows KernelArguments::*rows;
  std::int64_t batches;
};

// The parts, one after the other; their size with what aligning may take.
std::uint64_t add_regions(std::initializer_list<Part> parts, const KernelArguments& a,
                          std::vector<Region>* regions) {
  std::uint64_t end = 0;
  for (const Part& part : parts) {
    regions->push_back({part.rows, end});
    const auto count = static_cast<std::uint64_t>((a.*part.rows).batch * part.batches);
    end += (count * sizeof(float) + kRegionBytes - 1) / kRegionBytes * kRegionBytes;
  }
  return end > 0 ? end + kRegionBytes - sizeof(float) : 0;
}

// Forward over split keys if a row can, and if it takes less time than `whole`, the kernel that
// would do it otherwise, or is asked for, or sums better.
bool choose_split(const Variant* whole, const Caps& caps, std::span<const Unit> units,
                  const std::string& variant, HipPlan* plan) {
  KernelArguments& a = plan->arguments;
  const bool must = variant == "split" || sums_too_long(plan->problem.dtype, a);
  if (a.seq_q == 0 || (!must && !variant.empty())) return false;
  std::string reasons;
  const Variant* split = find(KernelPass::forward_split, caps, units, variant, *plan, &reasons);
  const Variant* combine = find(KernelPass::combine, caps, units, variant, *plan, &reasons);
  if (split == nullptr || combine == nullptr) return false;
  a.splits = best_splits(*split, a, caps, must ? 2 : 1);
  a.state_unit = split->general ? 1.0f : a.score.scale;
  if (!obstacle(*split, *plan, caps, variant).empty() ||
      (!must && whole != nullptr && !split_pays(*split, *whole, a, caps))) {
    a.splits = 1;
    return false;
  }
  add_step(*split, plan, &plan->forward);
  if (a.splits == 1) return true;
  plan->describe += fmt::format(" over {} stretches of the keys", a.splits);
  add_step(*combine, plan, &plan->forward);
  plan->forward_workspace = add_regions(
      {{&KernelArguments::states, std::int64_t{a.splits} * a.batch}}, a, &plan->forward_regions);
  return true;
}

Status choose_forward(const Caps& caps, std::span<const Unit> units, const std::string& variant,
                      HipPlan* plan) {
  std::string reasons;
  const Variant* whole = find(KernelPass::forward, caps, units, variant, *plan, &reasons);
  if (choose_split(whole, caps, units, variant, plan)) return {};
  return choose(KernelPass::forward, caps, units, variant, plan, &plan->forward);
}

// Backward as these passes, which hand each other these parts of the workspace, and what else was
// asked for.
Status choose_backward(std::initializer_list<KernelPass> passes, std::initializer_list<Part> shared,
                       const Caps& caps, std::span<const Unit> units, const std::string& variant,
                       HipPlan* out) {
  HipPlan plan = *out;
  const auto add = [&](KernelPass pass) {
    return choose(pass, caps, units, variant, &plan, &plan.backward);
  };
  for (const KernelPass pass : passes) CROSSFLASH_TRY(add(pass));
  if (plan.problem.bias.gradient) CROSSFLASH_TRY(add(KernelPass::grad_bias));
  if (plan.problem.sink_gradient) CROSSFLASH_TRY(add(KernelPass::grad_sink));
  plan.backward_workspace = add_regions(shared, plan.arguments, &plan.backward_regions);
  *out = std::move(plan);
  return {};
}

// Five products and sums of dQ in any order where the table has them and the problem allows it;
// else seven, every sum in one order.
Status choose_backward(const Caps& caps, std::span<const Unit> units, const std::string& variant,
                       HipPlan* plan) {
  using A = KernelArguments;
  const std::int64_t batches = plan->problem.tensor(TensorId::lse).batch;  // 1: packed sequences
  if (!plan->problem.deterministic &&
      choose_backward({KernelPass::row_dot, KernelPass::grad_all, KernelPass::cast_grad_q},
                      {{&A::delta, batches}, {&A::base, batches}, {&A::grad_q_sums, batches}}, caps,
                      units, variant, plan)
          .ok())
    return {};
  return choose_backward({KernelPass::row_dot, KernelPass::grad_q, KernelPass::grad_kv},
                         {{&A::delta, batches}, {&A::mend, batches}}, caps, units, variant, plan);
}

}  // namespace

Status make_plan(const Problem& problem, const Caps& caps, std::span<const Unit> units,
                 const std::string& variant, HipPlan* out) {
  HipPlan plan;
  plan.problem = problem;
  CROSSFLASH_TRY(make_arguments(problem, &plan.arguments));
  plan.describe = fmt::format("hip {} {}:", caps.architecture, dtype_name(problem.dtype));
  if (problem.forward) CROSSFLASH_TRY(choose_forward(caps, units, variant, &plan));
  if (problem.backward) CROSSFLASH_TRY(choose_backward(caps, units, variant, &plan));
  if (problem.append.given)
    CROSSFLASH_TRY(choose(KernelPass::append, caps, units, variant, &plan, &plan.append));
  plan.describe += "; f32 sums; the first rows of the table that can";
  *out = std::move(plan);
  return {};
}

}  // namespace crossflash::hip
