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
  constexpr std::uint32_t kAll = CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD | CROSSFLASH_APPEND;
  if (in.passes == 0 || (in.passes & ~kAll) != 0)
    return invalid(
        "passes is {}; it must be made of CROSSFLASH_FORWARD (1), CROSSFLASH_BACKWARD (2) and "
        "CROSSFLASH_APPEND (4)",
        in.passes);
  if ((in.passes & CROSSFLASH_APPEND) != 0 && (in.passes & CROSSFLASH_BACKWARD) != 0)
    return unsupported(
        "passes is {}; CROSSFLASH_APPEND (4) with CROSSFLASH_BACKWARD (2) is not supported",
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

Status check_flag(const char* name, std::int64_t value, std::int64_t most) {
  if (value < 0 || value > most)
    return invalid("{} is {}; it must be {}", name, value, most == 1 ? "0 or 1" : "0, 1 or 2");
  return {};
}

Status check_options(const crossflash_problem& in) {
  CROSSFLASH_TRY(check_flag("alibi", in.alibi, 1));
  CROSSFLASH_TRY(check_flag("sink", in.sink, 2));
  CROSSFLASH_TRY(check_flag("bias", in.bias, 2));
  CROSSFLASH_TRY(check_flag("mask", in.mask, 1));
  CROSSFLASH_TRY(check_flag("rows_q", in.rows_q, 2));
  CROSSFLASH_TRY(check_flag("rows_k", in.rows_k, 2));
  CROSSFLASH_TRY(check_flag("deterministic", in.deterministic, 1));
  CROSSFLASH_TRY(check_flag("random_on_device", in.random_on_device, 1));
  if (!(in.softcap >= 0) || std::isinf(in.softcap))
    return invalid("softcap is {}; it must be positive and finite, or 0 for none", in.softcap);
  if (in.row_bits != 32 && in.row_bits != 64)
    return invalid("row_bits is {}; lengths and offsets have 32 or 64", in.row_bits);
  if (in.bias != CROSSFLASH_ABSENT && in.bias_dtype != CROSSFLASH_F32 && in.bias_dtype != in.dtype)
    return invalid("bias_dtype is {}; it must be f32 (0) or dtype, which is {}",
                   static_cast<int>(in.bias_dtype), static_cast<int>(in.dtype));
  return {};
}

// Strides of a tensor over (batch, query head, query, key), in elements or words of a row.
Status make_score_strides(const char* name, const crossflash_score_strides& in,
                          const crossflash_problem& p, std::int64_t row, ScoreStrides* out) {
  ScoreStrides s{in.batch, in.head, in.seq_q, in.seq_k};
  if (s.batch == 0 && s.head == 0 && s.seq_q == 0 && s.seq_k == 0) {
    const std::int64_t rows = std::max<std::int64_t>(p.seq_q, 1);
    const std::int64_t width = std::max<std::int64_t>(row, 1);
    if (rows > kMaxExtent / width / p.heads_q / std::max<std::int64_t>(p.batch, 1))
      return unsupported("{} is {} x {} x {} x {}; at most 2^60 elements are supported", name,
                         p.batch, p.heads_q, p.seq_q, row);
    *out = {p.heads_q * rows * width, rows * width, width, 1};
    return {};
  }
  const auto check = [&](const char* axis, std::int64_t stride, std::int64_t extent) -> Status {
    if (stride < 0) return invalid("{}.{} is {}; strides must not be negative", name, axis, stride);
    if (extent > 1 && stride > kMaxExtent / extent)
      return unsupported("{}.{} is {}; the tensor would span more than 2^60 elements", name, axis,
                         stride);
    return {};
  };
  CROSSFLASH_TRY(check("batch", s.batch, p.batch));
  CROSSFLASH_TRY(check("head", s.head, p.heads_q));
  CROSSFLASH_TRY(check("seq_q", s.seq_q, p.seq_q));
  *out = s;
  return {};
}

// The contiguous tensor with 1 in the place of axes that the bias shares.
ScoreStrides gradient_strides(const ScoreStrides& bias, const Problem& p) {
  ScoreStrides s{};
  std::int64_t size = 1;
  const auto axis = [&size](std::int64_t stride, std::int64_t extent) {
    if (stride == 0) return std::int64_t{0};
    const std::int64_t own = size;
    size *= std::max<std::int64_t>(extent, 1);
    return own;
  };
  s.seq_k = axis(bias.seq_k, p.seq_k);
  s.seq_q = axis(bias.seq_q, p.seq_q);
  s.head = axis(bias.head, p.heads_q);
  s.batch = axis(bias.batch, p.batch);
  return s;
}

Status make_bias(const crossflash_problem& in, Problem* p) {
  if (in.bias == CROSSFLASH_ABSENT) return {};
  p->bias.given = true;
  p->bias.gradient = in.bias == CROSSFLASH_WITH_GRADIENT && p->backward;
  p->bias.dtype = in.bias_dtype;
  CROSSFLASH_TRY(
      make_score_strides("bias_strides", in.bias_strides, in, in.seq_k, &p->bias.strides));
  if (p->bias.strides.seq_k != 0 && p->bias.strides.seq_k != 1)
    return invalid("bias_strides.seq_k is {}; it must be 1, or 0 for a bias that keys share",
                   p->bias.strides.seq_k);
  p->bias.grad_strides = gradient_strides(p->bias.strides, *p);
  p->score.features |= shared::CF_BIAS;
  return {};
}

Status make_mask(const crossflash_problem& in, Problem* p) {
  if (in.mask == 0) return {};
  p->mask.given = true;
  CROSSFLASH_TRY(make_score_strides("mask_strides", in.mask_strides, in, (in.seq_k + 31) / 32,
                                    &p->mask.strides));
  if (p->mask.strides.seq_k != 1)
    return invalid("mask_strides.seq_k is {}; the words of a row are neighbours, so it must be 1",
                   p->mask.strides.seq_k);
  p->score.features |= shared::CF_MASK;
  return {};
}

Status make_sequences(const crossflash_problem& in, Problem* p) {
  Sequences& s = p->sequences;
  s = {in.rows_q, in.rows_k, in.row_bits / 8, 0, 0, in.causal == CROSSFLASH_CAUSAL_TOP_LEFT};
  if (in.rows_q == CROSSFLASH_ROWS_OFFSETS) {
    CROSSFLASH_TRY(check_range("total_q", in.total_q, 0, kMaxFlatHeads));
    s.total_q = in.total_q;
  }
  if (in.rows_k == CROSSFLASH_ROWS_OFFSETS) {
    CROSSFLASH_TRY(check_range("total_k", in.total_k, 0, kMaxFlatHeads));
    s.total_k = in.total_k;
  }
  return {};
}

Status make_pages(const crossflash_problem& in, Problem* p) {
  if (in.page_size == 0) return {};
  if (in.page_size < 0 || in.page_size % 16 != 0)
    return invalid("page_size is {}; it must be a multiple of 16, or 0 for keys without pages",
                   in.page_size);
  if (in.rows_k == CROSSFLASH_ROWS_OFFSETS)
    return invalid("rows_k is {}; paged keys are no packed sequences, rows_k must be 0 or 1",
                   static_cast<int>(in.rows_k));
  if (p->backward)
    return unsupported("page_size is {}; backward of paged keys is not supported", in.page_size);
  CROSSFLASH_TRY(check_range("page_size", in.page_size, 16, kMaxSequence));
  CROSSFLASH_TRY(check_range("pages", in.pages, 1, kMaxFlatHeads));
  p->pages = {in.page_size, in.pages, (in.seq_k + in.page_size - 1) / in.page_size};
  return {};
}

Status check_rotary(const crossflash_problem& in) {
  CROSSFLASH_TRY(check_flag("rotary_pairs", in.rotary_pairs, 1));
  if (in.rotary == 0) return {};
  if ((in.passes & CROSSFLASH_APPEND) == 0)
    return invalid("rotary is {}; without CROSSFLASH_APPEND nothing is rotated, it must be 0",
                   in.rotary);
  if (in.rotary < 0 || in.rotary > in.d || in.rotary % 2 != 0)
    return invalid("rotary is {}; it must be even and at most d, which is {}", in.rotary, in.d);
  return check_range("positions", in.positions, 1, kMaxFlatHeads);
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
  CROSSFLASH_TRY(check_options(in));

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
  p.score.softcap = in.softcap;
  p.score.features = (in.dropout > 0 ? shared::CF_DROPOUT : 0u) |
                     (in.softcap > 0 ? shared::CF_SOFTCAP : 0u) |
                     (in.alibi != 0 ? shared::CF_ALIBI : 0u) |
                     (in.sink != CROSSFLASH_ABSENT ? shared::CF_SINK : 0u);
  p.sink_gradient = in.sink == CROSSFLASH_WITH_GRADIENT && p.backward;
  p.random_on_device = in.random_on_device != 0 && in.dropout > 0;
  CROSSFLASH_TRY(make_bias(in, &p));
  CROSSFLASH_TRY(make_mask(in, &p));
  CROSSFLASH_TRY(make_sequences(in, &p));
  CROSSFLASH_TRY(make_pages(in, &p));
  CROSSFLASH_TRY(check_rotary(in));

  // Where the rows of a side lie: in batches of the longest, all in one, or in pages.
  struct Side {
    std::int64_t batch, seq;
  };
  const Sequences& rows = p.sequences;
  const Side queries =
      rows.q == CROSSFLASH_ROWS_OFFSETS ? Side{1, rows.total_q} : Side{in.batch, in.seq_q};
  const Side keys = rows.k == CROSSFLASH_ROWS_OFFSETS ? Side{1, rows.total_k}
                    : p.pages.size > 0                ? Side{p.pages.count, p.pages.size}
                                                      : Side{in.batch, in.seq_k};
  const auto tensor = [&](TensorId id, const crossflash_strides& strides, const Side& side,
                          std::int64_t heads, std::int64_t width) {
    const auto n = static_cast<std::size_t>(id);
    return make_tensor(kTensorNames[n], in.dtype, strides, side.batch, side.seq, heads, width,
                       &p.tensors[n]);
  };
  CROSSFLASH_TRY(tensor(TensorId::q, in.q, queries, in.heads_q, in.d));
  CROSSFLASH_TRY(tensor(TensorId::k, in.k, keys, in.heads_kv, in.d));
  CROSSFLASH_TRY(tensor(TensorId::v, in.v, keys, in.heads_kv, in.d_v));
  CROSSFLASH_TRY(tensor(TensorId::o, in.o, queries, in.heads_q, in.d_v));
  if (p.backward) {
    CROSSFLASH_TRY(tensor(TensorId::grad_o, in.grad_o, queries, in.heads_q, in.d_v));
    CROSSFLASH_TRY(tensor(TensorId::grad_q, in.grad_q, queries, in.heads_q, in.d));
    CROSSFLASH_TRY(tensor(TensorId::grad_k, in.grad_k, keys, in.heads_kv, in.d));
    CROSSFLASH_TRY(tensor(TensorId::grad_v, in.grad_v, keys, in.heads_kv, in.d_v));
  }
  if ((in.passes & CROSSFLASH_APPEND) != 0) {
    Append& a = p.append;
    a.given = true;
    a.rotary = in.rotary;
    a.interleaved = in.rotary_pairs == CROSSFLASH_ROTARY_INTERLEAVED;
    a.positions = in.rotary > 0 ? in.positions : 0;
    const auto rows_of_q = [&](const char* name, const crossflash_strides& strides,
                               std::int64_t heads, std::int64_t width, Tensor* made) {
      return make_tensor(name, in.dtype, strides, queries.batch, queries.seq, heads, width, made);
    };
    CROSSFLASH_TRY(rows_of_q("new_k", in.new_k, in.heads_kv, in.d, &a.new_k));
    CROSSFLASH_TRY(rows_of_q("new_v", in.new_v, in.heads_kv, in.d_v, &a.new_v));
    if (a.rotary > 0)
      CROSSFLASH_TRY(rows_of_q("rotated_q", in.rotated_q, in.heads_q, in.d, &a.rotated_q));
  }
  p.tensors[static_cast<std::size_t>(TensorId::lse)] = {CROSSFLASH_F32,
                                                        queries.batch,
                                                        queries.seq,
                                                        in.heads_q,
                                                        1,
                                                        {in.heads_q * queries.seq, 1, queries.seq}};
  *out = p;
  return {};
}

bool Problem::uses(TensorId id, Pass pass) const {
  if (tensor(id).empty()) return false;
  switch (pass) {
    case Pass::forward:
      return id < TensorId::grad_o;
    case Pass::backward:
      return true;
    case Pass::append:
      return id == TensorId::k || id == TensorId::v || (id == TensorId::q && append.rotary > 0);
  }
  return false;
}

bool Problem::uses(OptionId id, Pass pass) const {
  if (option_extent(id) == 0) return false;
  switch (id) {
    case OptionId::rows_q:
    case OptionId::rows_k:
    case OptionId::page_table:
      return true;
    case OptionId::grad_bias:
    case OptionId::grad_sink:
      return pass == Pass::backward;
    case OptionId::new_k:
    case OptionId::new_v:
    case OptionId::rotated_q:
    case OptionId::cosine:
    case OptionId::sine:
      return pass == Pass::append;
    default:
      return pass != Pass::append;
  }
}

std::int64_t Problem::option_extent(OptionId id) const {
  if (batch == 0) return 0;
  const auto extent = [this](const ScoreStrides& s, std::int64_t row) -> std::int64_t {
    if (seq_q == 0 || seq_k == 0) return 0;
    return (batch - 1) * s.batch + (heads_q - 1) * s.head + (seq_q - 1) * s.seq_q +
           (row - 1) * s.seq_k + 1;
  };
  const auto rows = [this](crossflash_rows kind) -> std::int64_t {
    return kind == CROSSFLASH_ROWS_ALL ? 0 : batch + (kind == CROSSFLASH_ROWS_OFFSETS ? 1 : 0);
  };
  switch (id) {
    case OptionId::bias:
      return bias.given ? extent(bias.strides, seq_k) : 0;
    case OptionId::grad_bias:
      return bias.gradient ? extent(bias.grad_strides, seq_k) : 0;
    case OptionId::mask:
      return mask.given ? extent(mask.strides, (seq_k + 31) / 32) : 0;
    case OptionId::alibi:
      return has(shared::CF_ALIBI) ? heads_q : 0;
    case OptionId::sink:
      return has(shared::CF_SINK) ? heads_q : 0;
    case OptionId::grad_sink:
      return sink_gradient ? heads_q : 0;
    case OptionId::rows_q:
      return rows(sequences.q);
    case OptionId::rows_k:
      return rows(sequences.k);
    case OptionId::page_table:
      return pages.size > 0 ? batch * pages.of_sequence : 0;
    case OptionId::random:
      return random_on_device ? 2 : 0;
    case OptionId::new_k:
      return append.new_k.extent();
    case OptionId::new_v:
      return append.new_v.extent();
    case OptionId::rotated_q:
      return append.rotated_q.extent();
    case OptionId::cosine:
    case OptionId::sine:
      return append.rotary / 2 * append.positions;
  }
  return 0;
}

std::size_t Problem::option_element(OptionId id) const {
  switch (id) {
    case OptionId::bias:
    case OptionId::grad_bias:
      return dtype_size(bias.dtype);
    case OptionId::rows_q:
    case OptionId::rows_k:
      return static_cast<std::size_t>(sequences.index_bytes);
    case OptionId::random:
      return 8;
    case OptionId::new_k:
    case OptionId::new_v:
    case OptionId::rotated_q:
      return dtype_size(dtype);
    default:
      return 4;
  }
}

Status refuse_options(const Problem& p, const char* backend) {
  const auto refused = [backend](const char* option) {
    return unsupported("{} is given; {} does not support it yet", option, backend);
  };
  if (p.has(shared::CF_SOFTCAP)) return refused("softcap");
  if (p.has(shared::CF_ALIBI)) return refused("alibi");
  if (p.has(shared::CF_SINK)) return refused("sink");
  if (p.bias.given) return refused("bias");
  if (p.mask.given) return refused("mask");
  if (p.sequences.q != CROSSFLASH_ROWS_ALL) return refused("rows_q");
  if (p.sequences.k != CROSSFLASH_ROWS_ALL) return refused("rows_k");
  if (p.pages.size > 0) return refused("page_size");
  if (p.random_on_device) return refused("random_on_device");
  if (p.append.given) return refused("CROSSFLASH_APPEND");
  return {};
}

Status check_random_state(const Problem& problem, std::uint64_t seed, std::uint64_t offset,
                          shared::cf_dropout* out) {
  if (problem.random_on_device && (seed != 0 || offset != 0))
    return invalid("seed is {}, offset {}; with random_on_device both must be 0", seed, offset);
  if (problem.dropout > 0 && offset > std::numeric_limits<std::uint32_t>::max())
    return unsupported("offset is {}; dropout's offset must be below 2^32", offset);
  *out = {static_cast<shared::uint>(seed), static_cast<shared::uint>(seed >> 32),
          static_cast<shared::uint>(offset), problem.drop_threshold};
  return {};
}

}  // namespace crossflash
