// SPDX-License-Identifier: MIT
// direct.cpp: the variant whose kernels bind the caller's tensors as they lie. A dispatch is a run
// of workgroups of the whole problem; only loops too long for one dispatch are cut, the state
// carrying the accumulators from one to the next.
#include <algorithm>

#include "common/half.h"
#include "vulkan/append.h"
#include "vulkan/plan.h"

namespace crossflash::vulkan {
namespace {

using shared::cf_slice;
using shared::cf_tensor;
using shared::uint;

// Storage bindings of the kernels: forward q k v o lse work; dK/dV q k v do lse work dk dv. With
// options the most is that of forward, which adds bias, alibi, sink, mask, rows_q, rows_k,
// page_table and random, and of dK/dV, which adds all of these but sink and page_table.
constexpr std::uint32_t kForwardBindings = 6, kBackwardBindings = 8, kOptionBindings = 14;

// The fewest workgroups that share a dispatch of dBias, and the most if it hands on its sums.
constexpr double kBiasGroups = 64;
constexpr std::int64_t kMostBiasGroups = 128;

cf_tensor strides_of(const Tensor& t) {
  return {static_cast<uint>(t.strides.batch), static_cast<uint>(t.strides.seq),
          static_cast<uint>(t.strides.head), static_cast<uint>(t.width)};
}

Status check_bindings(const VulkanPlan& plan) {
  const Problem& p = plan.problem;
  const std::uint32_t needed = plan.options ? kOptionBindings
                               : p.backward ? kBackwardBindings
                                            : kForwardBindings;
  if (plan.caps.storage_buffers < needed)
    return unsupported("storage buffers of a kernel are {}; it needs {}", plan.caps.storage_buffers,
                       needed);
  const auto check = [&](const char* name, std::int64_t extent, std::size_t size) -> Status {
    const auto bytes = static_cast<double>(extent) * static_cast<double>(size);
    // The binding starts at an aligned offset at or before the tensor and ends at a whole word.
    if (bytes + static_cast<double>(plan.caps.alignment) + 4 > static_cast<double>(plan.caps.range))
      return unsupported("{} spans {:.0f} bytes; a storage binding covers {}", name, bytes,
                         plan.caps.range);
    return {};
  };
  for (std::size_t n = 0; n < kTensorCount; ++n)
    CROSSFLASH_TRY(check(kTensorNames[n], p.tensors[n].extent(), dtype_size(p.tensors[n].dtype)));
  for (std::size_t n = 0; n < kOptionCount; ++n) {
    const auto id = static_cast<OptionId>(n);
    CROSSFLASH_TRY(check(kOptionNames[n], p.option_extent(id), p.option_element(id)));
  }
  return {};
}

// Workgroups of dBias: one for each tile of the gradient; and the tiles of dS that share each.
struct BiasGrid {
  std::int64_t own = 1, shared = 1;

  BiasGrid(const Problem& p, const Tile& tile) {
    const auto axis = [this](std::int64_t stride, std::int64_t extent, std::int64_t unit) {
      (stride != 0 ? own : shared) *= (extent + unit - 1) / unit;
    };
    const ScoreStrides& s = p.bias.grad_strides;
    axis(s.seq_k, p.seq_k, tile.tile_cols());
    axis(s.seq_q, p.seq_q, tile.tile_rows());
    axis(s.head, p.heads_q, 1);
    axis(s.batch, p.batch, 1);
  }
};

// Workgroups of a dispatch of dBias, and the words in which they hand on their sums.
std::int64_t bias_groups(const VulkanPlan& plan, bool cut) {
  const KernelPlan& kernel = plan.kernel(KernelId::backward_bias);
  const auto most = static_cast<std::int64_t>(
      std::clamp(plan.caps.flops_per_dispatch / std::max(kernel.flops_per_group, 1.0), 1.0,
                 static_cast<double>(plan.caps.groups)));
  return cut ? std::min(most, kMostBiasGroups) : most;
}
double bias_state(const VulkanPlan& plan) {
  const KernelPlan& kernel = plan.kernel(KernelId::backward_bias);
  const BiasGrid grid(plan.problem, kernel.tile);
  if (kernel.walk >= grid.shared) return 0;
  return static_cast<double>(std::min(bias_groups(plan, true), grid.own)) *
         kernel.tile.tile_rows() * kernel.tile.tile_cols();
}

Status plan_kernel(KernelId id, VulkanPlan* plan) {
  const Problem& p = plan->problem;
  KernelPlan& kernel = plan->kernel(id);
  kernel.box = {p.batch, p.heads_kv, p.group(), p.seq_q, p.seq_k};
  CROSSFLASH_TRY(choose_kernel_tile(id, plan));
  kernel.block = make_block(p);
  kernel.block.head_step = kernel.block.group;
  kernel.options = make_options(p);
  cf_tensor* const blocks[kTensorCount] = {
      &kernel.block.q,      &kernel.block.k,      &kernel.block.v,
      &kernel.block.o,      &kernel.block.lse,    &kernel.block.grad_o,
      &kernel.block.grad_q, &kernel.block.grad_k, &kernel.block.grad_v};
  for (std::size_t n = 0; n < kTensorCount; ++n) *blocks[n] = strides_of(p.tensors[n]);
  if (p.sequences.q == CROSSFLASH_ROWS_OFFSETS)  // a sequence starts at its offset alone
    for (const TensorId t :
         {TensorId::q, TensorId::o, TensorId::lse, TensorId::grad_o, TensorId::grad_q})
      blocks[static_cast<std::size_t>(t)]->batch = 0;
  if (p.sequences.k == CROSSFLASH_ROWS_OFFSETS)
    for (const TensorId t : {TensorId::k, TensorId::v, TensorId::grad_k, TensorId::grad_v})
      blocks[static_cast<std::size_t>(t)]->batch = 0;

  double loop = 1;  // elements a workgroup walks in one dispatch
  if (id == KernelId::forward || id == KernelId::backward_dq) {
    kernel.box.keys = std::max<std::int64_t>(std::min(p.seq_k, longest_loop(id, *plan)), 1);
    loop = static_cast<double>(kernel.box.keys);
  } else if (id == KernelId::backward_dkv) {
    // The loop is over the group's heads and, in whole tiles, over their queries.
    const std::int64_t most = longest_loop(id, *plan), tile = kernel.tile.tile_cols();
    const std::int64_t head = std::max<std::int64_t>((p.seq_q + tile - 1) / tile, 1) * tile;
    kernel.box.members = std::clamp<std::int64_t>(most / head, 1, p.group());
    if (head > most) kernel.box.queries = most;
    loop = static_cast<double>(std::min(head, most) * kernel.box.members);
  } else if (id == KernelId::backward_bias) {
    const double tile = flops_per_loop_element(id, p, kernel.tile) * kernel.tile.tile_cols();
    const auto parallel =
        static_cast<std::int64_t>(plan->caps.flops_per_dispatch / kBiasGroups / tile);
    kernel.walk =
        std::max<std::int64_t>(std::min({BiasGrid(p, kernel.tile).shared, parallel,
                                         longest_loop(id, *plan) / kernel.tile.tile_cols()}),
                               1);
    loop = static_cast<double>(kernel.walk * kernel.tile.tile_cols());
  } else if (id == KernelId::backward_sink) {
    // The loop is over batches and, a row for each invocation, over their queries.
    const auto most = static_cast<std::int64_t>(plan->caps.loop_iterations / 2);
    const std::int64_t threads = kernel.tile.threads;
    const std::int64_t rows = (p.seq_q + threads - 1) / threads + 1;
    kernel.box.batches = std::clamp<std::int64_t>(most / rows, 1, p.batch);
    kernel.box.queries = std::min(p.seq_q, most * threads);
  }
  kernel.flops_per_group = flops_per_loop_element(id, p, kernel.tile) * loop;
  if (id == KernelId::backward_dot) kernel.flops_per_group *= kernel.tile.threads;
  return {};
}

// Every slice starts from the whole problem.
cf_slice whole(const VulkanPlan& plan, const KernelPlan& kernel) {
  const Problem& p = plan.problem;
  cf_slice s{};
  s.base_delta = kernel.delta;
  s.base_mend = kernel.mend;
  s.base_state = kernel.state;
  s.heads = static_cast<uint>(p.heads_kv);
  s.group_count = static_cast<uint>(p.group());
  s.query_end = static_cast<int>(p.seq_q);
  s.key_end = static_cast<int>(p.seq_k);
  return s;
}

void emit_over_keys(const VulkanPlan& plan, KernelId id, Sink& sink) {
  const KernelPlan& kernel = plan.kernel(id);
  const std::int64_t length = plan.problem.seq_k, chunk = kernel.box.keys;
  for (std::int64_t begin = 0; begin == 0 || begin < length; begin += chunk) {
    cf_slice s = whole(plan, kernel);
    s.key_begin = static_cast<int>(begin);
    s.key_end = static_cast<int>(std::min(begin + chunk, length));
    if (plan.problem.pages.size == 0) {  // else rows are looked up
      s.base_k = static_cast<uint>(begin) * kernel.block.k.seq;
      s.base_v = static_cast<uint>(begin) * kernel.block.v.seq;
    }
    s.carry = (begin > 0 ? shared::CF_CARRY_IN : 0u) |
              (begin + chunk < length ? shared::CF_CARRY_OUT : 0u);
    emit_groups(plan, id, id, s, plan.problem.batch, sink);
    sink.barrier();
  }
}

void emit_over_queries(const VulkanPlan& plan, KernelId id, Sink& sink) {
  const KernelPlan& kernel = plan.kernel(id);
  const Problem& p = plan.problem;
  const std::int64_t chunk = std::max<std::int64_t>(kernel.box.queries, 1);
  for (std::int64_t member = 0; member < p.group(); member += kernel.box.members)
    for (std::int64_t begin = 0; begin == 0 || begin < p.seq_q; begin += chunk) {
      cf_slice s = whole(plan, kernel);
      s.group_begin = static_cast<uint>(member);
      s.group_count = static_cast<uint>(std::min(kernel.box.members, p.group() - member));
      s.query_begin = static_cast<int>(begin);
      s.query_end = static_cast<int>(std::min(begin + chunk, p.seq_q));
      const auto base = [&](const cf_tensor& t) {
        return s.group_begin * t.head + static_cast<uint>(begin) * t.seq;
      };
      s.base_q = base(kernel.block.q);
      s.base_grad_o = base(kernel.block.grad_o);
      s.base_lse = base(kernel.block.lse);
      s.base_delta += base(kernel.block.lse);
      s.base_mend += base(kernel.block.lse);
      const bool first = member == 0 && begin == 0;
      const bool last = member + kernel.box.members >= p.group() && begin + chunk >= p.seq_q;
      s.carry = (first ? 0u : shared::CF_CARRY_IN) | (last ? 0u : shared::CF_CARRY_OUT);
      emit_groups(plan, id, id, s, p.batch, sink);
      sink.barrier();
    }
}

// So many workgroups as a dispatch has, through all the tiles that share their sums.
void emit_bias(const VulkanPlan& plan, Sink& sink) {
  constexpr KernelId id = KernelId::backward_bias;
  const KernelPlan& kernel = plan.kernel(id);
  const BiasGrid grid(plan.problem, kernel.tile);
  const bool cut = kernel.walk < grid.shared;
  const std::int64_t step = bias_groups(plan, cut);
  for (std::int64_t first = 0; first < grid.own; first += step)
    for (std::int64_t begin = 0; begin < grid.shared; begin += kernel.walk) {
      ComputeStep compute{id, id, whole(plan, kernel), 0, 0};
      cf_slice& s = compute.slice;
      s.first_group = static_cast<uint>(first);
      s.walk_begin = static_cast<uint>(begin);
      s.group_count = static_cast<uint>(std::min(kernel.walk, grid.shared - begin));
      s.carry = (begin > 0 ? shared::CF_CARRY_IN : 0u) |
                (begin + kernel.walk < grid.shared ? shared::CF_CARRY_OUT : 0u);
      compute.groups = static_cast<std::uint32_t>(std::min(step, grid.own - first));
      compute.flops = kernel.flops_per_group * compute.groups;
      sink.compute(compute);
      sink.barrier();
    }
}

// A workgroup for each query head; what one slice leaves in the gradient the next adds to.
void emit_sink(const VulkanPlan& plan, Sink& sink) {
  constexpr KernelId id = KernelId::backward_sink;
  const Problem& p = plan.problem;
  const KernelPlan& kernel = plan.kernel(id);
  const std::int64_t chunk = std::max<std::int64_t>(kernel.box.queries, 1);
  for (std::int64_t b = 0; b < p.batch; b += kernel.box.batches)
    for (std::int64_t begin = 0; begin == 0 || begin < p.seq_q; begin += chunk) {
      for (std::int64_t head = 0; head < p.heads_q; head += plan.caps.groups) {
        ComputeStep compute{id, id, whole(plan, kernel), 0, 0};
        cf_slice& s = compute.slice;
        s.first_group = static_cast<uint>(head);
        s.batch_begin = static_cast<uint>(b);
        const uint base = s.batch_begin * kernel.block.lse.batch +
                          static_cast<uint>(begin) * kernel.block.lse.seq;
        s.base_lse = base;
        s.base_delta += base;
        s.group_count = static_cast<uint>(std::min(kernel.box.batches, p.batch - b));
        s.query_begin = static_cast<int>(begin);
        s.query_end = static_cast<int>(std::min(begin + chunk, p.seq_q));
        s.carry = b == 0 && begin == 0 ? 0u : shared::CF_CARRY_IN;
        compute.groups =
            static_cast<std::uint32_t>(std::min<std::int64_t>(plan.caps.groups, p.heads_q - head));
        sink.compute(compute);
      }
      sink.barrier();
    }
}

}  // namespace

Status plan_direct(VulkanPlan* plan) {
  const Problem& p = plan->problem;
  CROSSFLASH_TRY(check_bindings(*plan));
  if (p.append.given) CROSSFLASH_TRY(check_append(p, plan->caps));
  // Of the grid, which is sized by the longest sequence, and of lse.
  const double query_rows = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seq_q);
  const auto lse_rows = static_cast<double>(p.tensor(TensorId::lse).extent());
  const double key_rows = static_cast<double>(p.batch * p.heads_kv) * static_cast<double>(p.seq_k);
  double forward = 0, backward = 0;  // words
  if (p.forward) {
    CROSSFLASH_TRY(plan_kernel(KernelId::forward, plan));
    if (plan->kernel(KernelId::forward).box.keys < p.seq_k)
      forward = query_rows * static_cast<double>(p.d_v + 2);
  }
  if (p.backward) {
    for (const KernelId id :
         {KernelId::backward_dot, KernelId::backward_dkv, KernelId::backward_dq})
      CROSSFLASH_TRY(plan_kernel(id, plan));
    double state = 0;
    const Box& dkv = plan->kernel(KernelId::backward_dkv).box;
    if (dkv.members < p.group() || dkv.queries < p.seq_q)
      state = std::max(state, key_rows * static_cast<double>(p.d + p.d_v));
    if (plan->kernel(KernelId::backward_dq).box.keys < p.seq_k)
      state = std::max(state, query_rows * static_cast<double>(p.d + 1));
    if (p.sink_gradient) CROSSFLASH_TRY(plan_kernel(KernelId::backward_sink, plan));
    if (p.option_extent(OptionId::grad_bias) > 0) {
      CROSSFLASH_TRY(plan_kernel(KernelId::backward_bias, plan));
      state = std::max(state, bias_state(*plan));
    }
    backward = 2 * lse_rows + state;
  }
  const double bytes = 4 * std::max(forward, backward);
  if (bytes + static_cast<double>(plan->caps.alignment) > static_cast<double>(plan->caps.range))
    return unsupported("the workspace has {:.0f} bytes; a storage binding covers {}", bytes,
                       plan->caps.range);
  plan->forward_workspace = 4 * static_cast<std::uint64_t>(forward);
  plan->backward_workspace = 4 * static_cast<std::uint64_t>(backward);
  for (const KernelId id :
       {KernelId::backward_dkv, KernelId::backward_dq, KernelId::backward_bias}) {
    plan->kernel(id).mend = static_cast<std::uint32_t>(lse_rows);
    plan->kernel(id).state = static_cast<std::uint32_t>(2 * lse_rows);
  }
  return {};
}

void emit_direct(const VulkanPlan& plan, Pass pass, Sink& sink) {
  const Problem& p = plan.problem;
  const bool queries = p.batch > 0 && p.seq_q > 0, keys = p.batch > 0 && p.seq_k > 0;
  if (pass == Pass::forward) {
    if (queries) emit_over_keys(plan, KernelId::forward, sink);
    return;
  }
  if (queries) {
    emit_groups(plan, KernelId::backward_dot, KernelId::backward_dot,
                whole(plan, plan.kernel(KernelId::backward_dot)), p.batch, sink);
    sink.barrier();
  }
  if (queries) emit_over_keys(plan, KernelId::backward_dq, sink);
  if (keys) emit_over_queries(plan, KernelId::backward_dkv, sink);
  if (p.option_extent(OptionId::grad_bias) > 0) emit_bias(plan, sink);
  if (p.option_extent(OptionId::grad_sink) > 0) emit_sink(plan, sink);
}

}  // namespace crossflash::vulkan
