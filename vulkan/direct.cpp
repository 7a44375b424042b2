// SPDX-License-Identifier: MIT
// direct.cpp: the variant whose kernels bind the caller's tensors as they lie. A dispatch is a run
// of workgroups of the whole problem; only loops too long for one dispatch are cut, the state
// carrying the accumulators from one to the next.
#include <algorithm>

#include "common/half.h"
#include "vulkan/plan.h"

namespace crossflash::vulkan {
namespace {

using shared::cf_slice;
using shared::cf_tensor;
using shared::uint;

// Storage bindings of the kernels: forward q k v o lse work; dK/dV q k v do lse work dk dv.
constexpr std::uint32_t kForwardBindings = 6, kBackwardBindings = 8;

cf_tensor strides_of(const Tensor& t) {
  return {static_cast<uint>(t.strides.batch), static_cast<uint>(t.strides.seq),
          static_cast<uint>(t.strides.head), static_cast<uint>(t.width)};
}

Status check_bindings(const VulkanPlan& plan) {
  const Problem& p = plan.problem;
  const std::uint32_t needed = p.backward ? kBackwardBindings : kForwardBindings;
  if (plan.caps.storage_buffers < needed)
    return unsupported("storage buffers of a kernel are {}; it needs {}", plan.caps.storage_buffers,
                       needed);
  for (std::size_t n = 0; n < kTensorCount; ++n) {
    const Tensor& t = p.tensors[n];
    const auto bytes = static_cast<double>(t.extent()) * static_cast<double>(dtype_size(t.dtype));
    // The binding starts at an aligned offset at or before the tensor and ends at a whole word.
    if (bytes + static_cast<double>(plan.caps.alignment) + 4 > static_cast<double>(plan.caps.range))
      return unsupported("{} spans {:.0f} bytes; a storage binding covers {}", kTensorNames[n],
                         bytes, plan.caps.range);
  }
  return {};
}

Status plan_kernel(KernelId id, VulkanPlan* plan) {
  const Problem& p = plan->problem;
  KernelPlan& kernel = plan->kernel(id);
  kernel.box = {p.batch, p.heads_kv, p.group(), p.seq_q, p.seq_k};
  CROSSFLASH_TRY(choose_kernel_tile(id, plan));
  kernel.block = make_block(p);
  kernel.block.head_step = kernel.block.group;
  cf_tensor* const blocks[kTensorCount] = {
      &kernel.block.q,      &kernel.block.k,      &kernel.block.v,
      &kernel.block.o,      &kernel.block.lse,    &kernel.block.grad_o,
      &kernel.block.grad_q, &kernel.block.grad_k, &kernel.block.grad_v};
  for (std::size_t n = 0; n < kTensorCount; ++n) *blocks[n] = strides_of(p.tensors[n]);

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
    s.base_k = static_cast<uint>(begin) * kernel.block.k.seq;
    s.base_v = static_cast<uint>(begin) * kernel.block.v.seq;
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

}  // namespace

Status plan_direct(VulkanPlan* plan) {
  const Problem& p = plan->problem;
  CROSSFLASH_TRY(check_bindings(*plan));
  const double query_rows = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seq_q);
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
    backward = 2 * query_rows + state;
  }
  const double bytes = 4 * std::max(forward, backward);
  if (bytes + static_cast<double>(plan->caps.alignment) > static_cast<double>(plan->caps.range))
    return unsupported("the workspace has {:.0f} bytes; a storage binding covers {}", bytes,
                       plan->caps.range);
  plan->forward_workspace = 4 * static_cast<std::uint64_t>(forward);
  plan->backward_workspace = 4 * static_cast<std::uint64_t>(backward);
  for (const KernelId id : {KernelId::backward_dkv, KernelId::backward_dq}) {
    plan->kernel(id).mend = static_cast<std::uint32_t>(query_rows);
    plan->kernel(id).state = static_cast<std::uint32_t>(2 * query_rows);
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
}

}  // namespace crossflash::vulkan
