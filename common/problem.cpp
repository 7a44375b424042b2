// SPDX-License-Identifier: MIT
#include "common/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/half.h"

namespace crossflash {
namespace {

constexpr std::int64_t kMaxHeadSize = 512;
constexpr std::int64_t kMaxSequence = std::int64_t{1} << 29;  // mask.h adds two of them in 32 bits
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 60;    // elements, so that bytes fit 64 bits
constexpr std::int64_t kMaxFlatHeads = std::numeric_limits<std::int32_t>::max();

Status check_range(const char* name, std::int64_t value, std::int64_t lowest,
                   std::int64_t highest) {
  if (value < lowest) return invalid("{} is {}; it must be at least {}", name, value, lowest);
  if (value > highest)
    return unsupported("{} is {}; at most {} is supported", name, value, highest);
  return {};
}

Status check_stride(const char* tensor, const char* axis, std::int64_t stride,
                    std::int64_t extent) {
  if (extent > 1 && stride <= 0)
    return invalid("{}.{} is {}; the stride of an axis of {} must be positive", tensor, axis,
                   stride, extent);
  if (stride < 0) return invalid("{}.{} is {}; strides must not be negative", tensor, axis, stride);
  if (extent > 1 && stride > kMaxExtent / extent)
    return unsupported("{}.{} is {}; the tensor would span more than 2^60 elements", tensor, axis,
                       stride);
  return {};
}

Status make_tensor(const char* name, crossflash_dtype dtype, const crossflash_strides& given,
                   std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t width,
                   Tensor* out) {
  crossflash_strides s = given;
  const bool empty = batch == 0 || seq == 0;
  if (s.batch == 0 && s.seq == 0 && s.head == 0 && s.dim == 0) {
    if (!empty && seq > kMaxExtent / (heads * width) / batch)
      return unsupported("{} is {} x {} x {} x {}; at most 2^60 elements are supported", name,
                         batch, seq, heads, width);
    s = contiguous_strides(seq, heads, width);
  }
  if (s.dim != 1) return invalid("{}.dim is {}; the innermost stride must be 1", name, s.dim);
  // Nobody steps along the axes of a tensor without elements, whose contiguous strides may be 0.
  CROSSFLASH_TRY(check_stride(name, "batch", s.batch, empty ? 0 : batch));
  CROSSFLASH_TRY(check_stride(name, "seq", s.seq, empty ? 0 : seq));
  CROSSFLASH_TRY(check_stride(name, "head", s.head, empty ? 0 : heads));
  *out = {dtype, batch, seq, heads, width, {s.batch, s.seq, s.head}};
  return {};
}

Status check_enums(const crossflash_problem& in) {
  if (in.struct_size != sizeof(crossflash_problem))
    return invalid("struct_size is {}; crossflash_problem_init sets it to {}", in.struct_size,
                   sizeof(crossflash_problem));
  if (in.passes == 0 || (in.passes & ~std::uint32_t{CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD}) != 0)
    return invalid(
        "passes is {}; it must be made of CROSSFLASH_FORWARD (1) and CROSSFLASH_BACKWARD (2)",
        in.passes);
  if (in.dtype < CROSSFLASH_F32 || in.dtype > CROSSFLASH_BF16)
    return invalid("dtype is {}; it must be f32 (0), f16 (1) or bf16 (2)",
                   static_cast<int>(in.dtype));
  if (in.causal < CROSSFLASH_NOT_CAUSAL || in.causal > CROSSFLASH_CAUSAL_BOTTOM_RIGHT)
    return invalid("causal is {}; it must be 0 (not), 1 (top-left) or 2 (bottom-right)",
                   static_cast<int>(in.causal));
  return {};
}

Status check_extents(const crossflash_problem& in) {
  CROSSFLASH_TRY(check_range("batch", in.batch, 0, kMaxFlatHeads));
  CROSSFLASH_TRY(check_range("seq_q", in.seq_q, 0, kMaxSequence));
  CROSSFLASH_TRY(check_range("seq_k", in.seq_k, 0, kMaxSequence));
  CROSSFLASH_TRY(check_range("heads_q", in.heads_q, 1, kMaxFlatHeads));
  CROSSFLASH_TRY(check_range("heads_kv", in.heads_kv, 1, kMaxFlatHeads));
  CROSSFLASH_TRY(check_range("d", in.d, 1, kMaxHeadSize));
  CROSSFLASH_TRY(check_range("d_v", in.d_v, 1, kMaxHeadSize));
  if (in.heads_q % in.heads_kv != 0)
    return invalid("heads_q is {}; it must be a multiple of heads_kv, which is {}", in.heads_q,
                   in.heads_kv);
  if (in.batch > 0 && in.heads_q > kMaxFlatHeads / in.batch)
    return unsupported("batch * heads_q is {}; at most 2^31 - 1 is supported",
                       in.batch * in.heads_q);
  return {};
}

Status refuse_later_options(const crossflash_problem& in) {
  if (!(in.softcap == 0))
    return unsupported("softcap is {}; softcap is not supported yet", in.softcap);
  if (in.alibi != 0)
    return unsupported("alibi is {}; ALiBi slopes are not supported yet", in.alibi);
  if (in.sink != 0)
    return unsupported("sink is {}; attention sinks are not supported yet", in.sink);
  if (in.bias != 0) return unsupported("bias is {}; additive bias is not supported yet", in.bias);
  if (in.packed != 0)
    return unsupported("packed is {}; packed sequences are not supported yet", in.packed);
  if (in.deterministic != 0 && in.deterministic != 1)
    return invalid("deterministic is {}; it must be 0 or 1", in.deterministic);
  return {};
}

// Causal and window are one rule: a diagonal and two inclusive counts, -1 open.
Status make_visibility(const crossflash_problem& in, shared::cf_visibility* out) {
  for (const auto& [name, window] :
       {std::pair{"window_left", in.window_left}, std::pair{"window_right", in.window_right}})
    if (window < -1) return invalid("{} is {}; it must be -1 (open) or a count", name, window);
  // A window wider than every distance is open; so no sum of an index and a window overflows.
  const auto clamped = [](std::int64_t window) {
    return static_cast<int>(window > 2 * kMaxSequence ? -1 : window);
  };
  out->seq_k = static_cast<int>(in.seq_k);
  out->diagonal =
      in.causal == CROSSFLASH_CAUSAL_TOP_LEFT ? 0 : static_cast<int>(in.seq_k - in.seq_q);
  out->window_left = clamped(in.window_left);
  out->window_right = clamped(in.window_right);
  if (in.causal != CROSSFLASH_NOT_CAUSAL) out->window_right = 0;
  return {};
}

}  // namespace

crossflash_strides contiguous_strides(std::int64_t seq, std::int64_t heads, std::int64_t width) {
  // Of an empty sequence too the strides are positive, as they are asked to be.
  return {std::max<std::int64_t>(seq, 1) * heads * width, heads * width, width, 1};
}

Status check_problem(const crossflash_problem& in, Problem* out) {
  CROSSFLASH_TRY(check_enums(in));
  CROSSFLASH_TRY(check_extents(in));
  CROSSFLASH_TRY(refuse_later_options(in));

  if (std::isinf(in.scale))
    return invalid("scale is {}; it must be finite, or NAN for 1/sqrt(d)", in.scale);
  if (!(in.dropout >= 0 && in.dropout < 1))
    return invalid("dropout is {}; it must be at least 0 and below 1", in.dropout);

  Problem p{};
  p.forward = (in.passes & CROSSFLASH_FORWARD) != 0;
  p.deterministic = in.deterministic != 0;
  p.backward = (in.passes & CROSSFLASH_BACKWARD) != 0;
  p.dtype = in.dtype;
  p.batch = in.batch;
  p.seq_q = in.seq_q;
  p.seq_k = in.seq_k;
  p.heads_q = in.heads_q;
  p.heads_kv = in.heads_kv;
  p.d = in.d;
  p.d_v = in.d_v;

  CROSSFLASH_TRY(make_visibility(in, &p.visibility));
  p.dropout = in.dropout;
  p.drop_threshold = static_cast<std::uint32_t>(std::lround(in.dropout * 65536.0f));
  p.score.scale = std::isnan(in.scale) ? 1.0f / std::sqrt(static_cast<float>(in.d)) : in.scale;
  p.score.keep_scale = 1.0f / (1.0f - in.dropout);
  p.score.features = in.dropout > 0 ? shared::CF_DROPOUT : 0u;

  const auto tensor = [&](TensorId id, const crossflash_strides& strides, std::int64_t seq,
                          std::int64_t heads, std::int64_t width) {
    const auto n = static_cast<std::size_t>(id);
    return make_tensor(kTensorNames[n], in.dtype, strides, in.batch, seq, heads, width,
                       &p.tensors[n]);
  };
  CROSSFLASH_TRY(tensor(TensorId::q, in.q, in.seq_q, in.heads_q, in.d));
  CROSSFLASH_TRY(tensor(TensorId::k, in.k, in.seq_k, in.heads_kv, in.d));
  CROSSFLASH_TRY(tensor(TensorId::v, in.v, in.seq_k, in.heads_kv, in.d_v));
  CROSSFLASH_TRY(tensor(TensorId::o, in.o, in.seq_q, in.heads_q, in.d_v));
  if (p.backward) {
    CROSSFLASH_TRY(tensor(TensorId::grad_o, in.grad_o, in.seq_q, in.heads_q, in.d_v));
    CROSSFLASH_TRY(tensor(TensorId::grad_q, in.grad_q, in.seq_q, in.heads_q, in.d));
    CROSSFLASH_TRY(tensor(TensorId::grad_k, in.grad_k, in.seq_k, in.heads_kv, in.d));
    CROSSFLASH_TRY(tensor(TensorId::grad_v, in.grad_v, in.seq_k, in.heads_kv, in.d_v));
  }
  p.tensors[static_cast<std::size_t>(TensorId::lse)] = {
      CROSSFLASH_F32, in.batch, in.seq_q, in.heads_q, 1, {in.heads_q * in.seq_q, 1, in.seq_q}};
  *out = p;
  return {};
}

Status check_random_state(const Problem& problem, std::uint64_t seed, std::uint64_t offset,
                          shared::cf_dropout* out) {
  if (problem.dropout > 0 && offset > std::numeric_limits<std::uint32_t>::max())
    return unsupported("offset is {}; dropout's offset must be below 2^32", offset);
  *out = {static_cast<shared::uint>(seed), static_cast<shared::uint>(seed >> 32),
          static_cast<shared::uint>(offset), problem.drop_threshold};
  return {};
}

}  // namespace crossflash
