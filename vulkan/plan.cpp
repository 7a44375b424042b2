// SPDX-License-Identifier: MIT
#include "vulkan/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/half.h"

namespace crossflash::vulkan {
namespace {

// Lengths in steps of a factor of two: a tile for each length would be a pipeline for each.
std::int64_t bucket(std::int64_t length) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(length, 1, 256))));
}

TileRequest tile_request(KernelId id, const VulkanPlan& plan) {
  const Problem& p = plan.problem;
  const Box& box = plan.kernel(id).box;
  const auto d = static_cast<std::uint32_t>(p.d), d_v = static_cast<std::uint32_t>(p.d_v);
  const std::int64_t queries = bucket(box.queries), keys = bucket(box.keys);
  switch (id) {
    case KernelId::forward:
      return {d, d_v, 0, 1, queries, keys, p.product_flops(p.d + p.d_v)};
    case KernelId::backward_dkv:
      return {d + d_v, d, d_v, 2, keys, queries, p.product_flops(2 * (p.d + p.d_v))};
    case KernelId::backward_dq:
      return {d + d_v, d, 0, 2, queries, keys, p.product_flops(2 * p.d + p.d_v)};
    case KernelId::backward_bias:
      return {d + d_v, 0, 0, 2, queries, keys, p.product_flops(p.d + p.d_v)};
    case KernelId::backward_dot:
    case KernelId::backward_sink:
      break;
  }
  return {};
}

std::int64_t tiles(std::int64_t rows, std::uint32_t tile_rows) {
  return std::max<std::int64_t>((rows + tile_rows - 1) / tile_rows, 1);
}

std::string describe(const VulkanPlan& plan, const std::string& why) {
  const Problem& p = plan.problem;
  std::string text =
      fmt::format("vulkan {} {}:", plan.staged ? "staged" : "direct", dtype_name(p.dtype));
  const auto add = [&](KernelId id) {
    const Tile& t = plan.kernel(id).tile;
    text += fmt::format(" {} {} ({} threads, {:.1f} KiB shared),", kKernelNames[std::size_t(id)],
                        t.describe(), t.threads, static_cast<double>(t.shared_bytes()) / 1024);
  };
  if (p.forward) add(KernelId::forward);
  if (p.backward) {
    add(KernelId::backward_dkv);
    add(KernelId::backward_dq);
    if (p.option_extent(OptionId::grad_bias) > 0) add(KernelId::backward_bias);
  }
  if (p.append.given) text += " append,";
  return text + " f32 sums; " + why;
}

}  // namespace

Status choose_kernel_tile(KernelId id, VulkanPlan* plan) {
  KernelPlan& kernel = plan->kernel(id);
  if (id == KernelId::backward_dot || id == KernelId::backward_sink) {  // a row for each invocation
    kernel.tile.threads = std::min(plan->caps.invocations, 128u);
    kernel.tile.thread_cols = kernel.tile.rows = kernel.tile.cols = kernel.tile.depth =
        kernel.tile.strip = 1;
  } else {
    const TileRequest request = tile_request(id, *plan);
    const auto tile = choose_tile(request, plan->caps);
    if (!tile)
      return unsupported("shared memory is {} bytes; the {} kernel needs more for d {} and d_v {}",
                         plan->caps.shared_bytes, kKernelNames[std::size_t(id)], plan->problem.d,
                         plan->problem.d_v);
    kernel.tile = *tile;
    kernel.features = plan->options && shares_pipelines(request, plan->caps)
                          ? shared::CF_AT_RUN_TIME
                          : plan->problem.score.features & ~shared::CF_SOFTCAP;  // asked anyway
  }
  return {};
}

double flops_per_loop_element(KernelId id, const Problem& p, const Tile& tile) {
  const double rows = tile.tile_rows();
  const auto d = static_cast<double>(p.d), d_v = static_cast<double>(p.d_v);
  switch (id) {
    case KernelId::forward:
      return 2 * rows * (d + d_v);
    case KernelId::backward_dkv:
      return 4 * rows * (d + d_v);
    case KernelId::backward_dq:
      return 2 * rows * (2 * d + d_v);
    case KernelId::backward_bias:
      return 2 * rows * (d + d_v);
    case KernelId::backward_dot:
    case KernelId::backward_sink:
      break;
  }
  return 2 * rows * d_v;  // for the whole row
}

namespace {

// Loop iterations of an invocation for one tile, at most: those of the verbs in
// shaders/lib/tile.glsl, where each staged vec4 may take four more to load, of reductions and of
// Philox.
double iterations_per_tile(KernelId id, const Problem& p, const Tile& t) {
  const auto up = [](double a, double b) { return std::ceil(a / b); };
  const auto staged = [&](double vec4s) { return 5 * up(vec4s, t.threads); };
  const auto product = [&](std::int64_t width) {
    const double slice = 1 + staged(t.tile_rows() * t.depth / 4.0) +
                         staged(t.tile_cols() * t.depth / 4.0) + t.depth / 4.0;
    return up(static_cast<double>(width), t.depth) * slice;
  };
  const auto accumulate = [&](std::uint32_t width_per_thread) {
    const double strip = 1 + staged(t.strip * t.thread_cols * width_per_thread) + t.strip / 4.0;
    return up(t.tile_cols(), t.strip) * strip;
  };
  double n = 1 + product(p.d) + accumulate(t.width_a) + t.rows * t.thread_cols +
             11.0 * std::max(t.rows, t.cols);
  if (p.mask.given)  // its words of a tile, rows and columns either way
    n += up(std::max(t.tile_rows(), t.tile_cols()) * (t.tile_rows() + t.tile_cols() + 64) / 32.0,
            t.threads);
  if (id != KernelId::forward) n += product(p.d_v);
  if (id == KernelId::backward_dkv) n += accumulate(t.width_b);
  return n;
}

}  // namespace

std::int64_t longest_loop(KernelId id, const VulkanPlan& plan) {
  const Tile& tile = plan.kernel(id).tile;
  const std::int64_t unit = std::max<std::int64_t>(tile.tile_cols(), 8);  // whole dropout blocks
  double limit = plan.caps.flops_per_dispatch / flops_per_loop_element(id, plan.problem, tile);
  limit = std::min(limit, plan.caps.loop_iterations / iterations_per_tile(id, plan.problem, tile) *
                              tile.tile_cols());
  return std::max(static_cast<std::int64_t>(limit) / unit * unit, unit);
}

shared::cf_problem make_block(const Problem& p) {
  shared::cf_problem block{};
  block.visibility = p.visibility;
  block.score = p.score;
  block.heads_q = static_cast<shared::uint>(p.heads_q);
  block.group = static_cast<shared::uint>(p.group());
  block.seq_q = static_cast<int>(p.seq_q);
  return block;
}

shared::cf_options make_options(const Problem& p) {
  const auto u = [](std::int64_t n) { return static_cast<shared::uint>(n); };
  const auto strides = [&](const ScoreStrides& s) {
    return shared::cf_score_strides{u(s.batch), u(s.head), u(s.seq_q), u(s.seq_k)};
  };
  shared::cf_options o{};
  o.bias = strides(p.bias.strides);
  o.grad_bias = strides(p.bias.grad_strides);
  o.mask = strides(p.mask.strides);
  o.bias_dtype = static_cast<shared::uint>(p.bias.dtype);
  o.rows_q = static_cast<shared::uint>(p.sequences.q);
  o.rows_k = static_cast<shared::uint>(p.sequences.k);
  o.index_words = static_cast<shared::uint>(p.sequences.index_bytes / 4);
  o.total_q = static_cast<int>(p.sequences.total_q);
  o.total_k = static_cast<int>(p.sequences.total_k);
  o.top_left = p.sequences.top_left ? 1 : 0;
  o.random_on_device = p.random_on_device ? 1 : 0;
  o.page_size = static_cast<int>(p.pages.size);
  o.pages = static_cast<int>(p.pages.count);
  o.pages_of_sequence = u(p.pages.of_sequence);
  o.batch = u(p.batch);
  return o;
}

bool needs_options(const Problem& p) {
  constexpr shared::uint plain = shared::CF_DROPOUT | shared::CF_SOFTCAP;
  return (p.score.features & ~plain) != 0 || p.sequences.any() || p.pages.size > 0 ||
         p.random_on_device;
}

void emit_groups(const VulkanPlan& plan, KernelId id, KernelId block, const shared::cf_slice& slice,
                 std::int64_t batches, Sink& sink) {
  const KernelPlan& kernel = plan.kernel(id);
  const bool over_keys = id == KernelId::backward_dkv;
  const std::int64_t rows =
      over_keys ? slice.key_end - slice.key_begin : slice.query_end - slice.query_begin;
  const std::uint32_t tile_rows =
      id == KernelId::backward_dot ? kernel.tile.threads : kernel.tile.tile_rows();
  const std::int64_t total =
      batches * slice.heads * (over_keys ? 1 : slice.group_count) * tiles(rows, tile_rows);
  const double affordable = plan.caps.flops_per_dispatch / std::max(kernel.flops_per_group, 1.0);
  const auto step =
      static_cast<std::int64_t>(std::clamp(affordable, 1.0, static_cast<double>(plan.caps.groups)));
  for (std::int64_t first = 0; first < total; first += step) {
    ComputeStep compute{id, block, slice, static_cast<std::uint32_t>(std::min(step, total - first)),
                        0};
    compute.slice.first_group = static_cast<shared::uint>(first);
    compute.flops = kernel.flops_per_group * compute.groups;
    sink.compute(compute);
  }
}

Status make_plan(const Problem& problem, const Caps& caps, const std::string& variant,
                 VulkanPlan* out) {
  std::string reasons;
  for (const char* name : kVariants) {
    if (!variant.empty() && variant != name) continue;
    VulkanPlan plan;
    plan.problem = problem;
    plan.caps = caps;
    plan.staged = name == std::string("staged");
    plan.options = needs_options(problem);
    const Status status = plan.staged ? plan_staged(&plan) : plan_direct(&plan);
    if (status.ok()) {
      plan.describe = describe(plan, reasons.empty() ? "the variant listed first" : reasons);
      *out = std::move(plan);
      return {};
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "not " : ", not ", name, status.text());
  }
  if (reasons.empty())
    return unsupported("variant is \"{}\"; vulkan has direct and staged", variant);
  return unsupported("{}", reasons);
}

void emit_steps(const VulkanPlan& plan, Pass pass, Sink& sink) {
  plan.staged ? emit_staged(plan, pass, sink) : emit_direct(plan, pass, sink);
}

}  // namespace crossflash::vulkan
