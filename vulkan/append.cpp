// SPDX-License-Identifier: MIT
#include "vulkan/append.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/half.h"
#include "common/shared/append.h"
#include "vulkan/kernels.h"
#include "vulkan/window.h"

namespace crossflash::vulkan {
namespace {

using shared::cf_append;
using shared::uint;

constexpr std::uint32_t kThreads = 128;  // what every device allows
constexpr std::uint32_t kBindings = 7, kMostMoves = 3;

std::uint64_t bytes_of(const Tensor& t) {
  return static_cast<std::uint64_t>(t.extent()) * dtype_size(t.dtype);
}

std::uint64_t groups_of(const Problem& p, std::int64_t heads, std::int64_t units) {
  const auto chunks = static_cast<std::uint64_t>((heads * units + kThreads - 1) / kThreads);
  return static_cast<std::uint64_t>(p.batch * p.seq_q) * chunks;
}

// One dispatch's worth: rows of `source` to `target`.
struct Move {
  const Tensor& source;
  const Tensor& target;
  crossflash_buffer from, to;
  bool queries, rotates;
};

// The bindings and parameters of one move.
class MoveBinder {
 public:
  MoveBinder(const Problem& p, const Caps& caps, const RunArgs& args, crossflash_buffer unused)
      : p_(p), caps_(caps), args_(args), unused_(unused) {}

  cf_append bind(const Move& move) {
    const std::size_t size = dtype_size(p_.dtype);
    cf_append a{};
    a.base_source = bind_at(CF_BIND_SOURCE, move.from, bytes_of(move.source), size);
    a.base_target = bind_at(CF_BIND_TARGET, move.to, bytes_of(move.target), size);
    a.base_rows_q = bind_option(CF_BIND_APPEND_ROWS_Q, OptionId::rows_q);
    a.base_rows_k = bind_option(CF_BIND_APPEND_ROWS_K, OptionId::rows_k);
    a.base_page_table = bind_option(CF_BIND_APPEND_PAGES, OptionId::page_table);
    a.base_cosine = bind_option(CF_BIND_COSINE, OptionId::cosine);
    a.base_sine = bind_option(CF_BIND_SINE, OptionId::sine);
    const auto u = [](std::int64_t n) { return static_cast<uint>(n); };
    const auto i = [](std::int64_t n) { return static_cast<int>(n); };
    const Strides &from = move.source.strides, &to = move.target.strides;
    a.source_batch = u(from.batch);
    a.source_seq = u(from.seq);
    a.source_head = u(from.head);
    a.target_batch = u(to.batch);
    a.target_seq = u(to.seq);
    a.target_head = u(to.head);
    a.heads = u(move.source.heads);
    a.width = u(move.source.width);
    a.queries = move.queries ? 1 : 0;
    a.rows_q = static_cast<uint>(p_.sequences.q);
    a.rows_k = static_cast<uint>(p_.sequences.k);
    a.index_words = static_cast<uint>(p_.sequences.index_bytes / 4);
    a.seq_q = i(p_.seq_q);
    a.seq_k = i(p_.seq_k);
    a.total_q = i(p_.sequences.total_q);
    a.total_k = i(p_.sequences.total_k);
    a.page_size = i(p_.pages.size);
    a.pages = i(p_.pages.count);
    a.pages_of_sequence = u(p_.pages.of_sequence);
    a.rotary = move.rotates ? i(p_.append.rotary) : 0;
    a.positions = i(p_.append.positions);
    a.interleaved = p_.append.interleaved ? 1 : 0;
    // Two elements where every row and run starts at a whole word.
    const uint odd = a.base_source | a.source_batch | a.source_seq | a.source_head | a.base_target |
                     a.target_batch | a.target_seq | a.target_head | a.width | uint(a.rotary / 2);
    a.run = p_.dtype != CROSSFLASH_F32 && odd % 2 == 0 ? 2 : 1;
    return a;
  }
  std::span<const Binding> bindings() const { return bindings_; }

 private:
  // The first of the buffer's elements, counted from where the binding starts.
  uint bind_at(std::uint32_t binding, crossflash_buffer buffer, std::uint64_t bytes,
               std::size_t size) {
    if (bytes == 0) {
      buffer = unused_;
      bytes = 4;
    }
    const Window window = make_window(binding, buffer, 0, bytes, caps_.alignment);
    bindings_[binding] = window.binding;
    return static_cast<uint>(window.skipped / size);
  }
  uint bind_option(std::uint32_t binding, OptionId id) {
    const auto bytes = static_cast<std::uint64_t>(p_.option_extent(id)) * p_.option_element(id);
    return bind_at(binding, args_.option(id), bytes, 4);
  }

  const Problem& p_;
  const Caps& caps_;
  const RunArgs& args_;
  const crossflash_buffer unused_;
  std::array<Binding, kBindings> bindings_;
};

}  // namespace

Status check_append(const Problem& p, const Caps& caps) {
  if (caps.storage_buffers < kBindings)
    return unsupported("storage buffers of a kernel are {}; CROSSFLASH_APPEND needs {}",
                       caps.storage_buffers, kBindings);
  const std::uint64_t groups = groups_of(p, p.heads_q, std::max(p.d, p.d_v));
  if (groups > std::numeric_limits<std::uint32_t>::max())
    return unsupported("seq_q is {}; CROSSFLASH_APPEND counts {} workgroups in 32 bits", p.seq_q,
                       groups);
  return {};
}

Appender::Appender(Context& context, const Problem& problem, const Caps& caps)
    : problem_(problem),
      caps_(caps),
      recordings_(context, {kMostMoves, kMostMoves * kBindings, 0}) {}

Status Appender::create(Context& context, Pipelines& pipelines, const Problem& problem,
                        const Caps& caps, std::unique_ptr<Appender>* out) {
  std::unique_ptr<Appender> appender(new Appender(context, problem, caps));
  const std::uint32_t constants[] = {kThreads, static_cast<std::uint32_t>(problem.dtype)};
  CROSSFLASH_TRY(pipelines.get(append_kernel(), constants, &appender->pipeline_));
  RecordingPool::Lease first;  // so that the first run allocates nothing either
  CROSSFLASH_TRY(appender->recordings_.acquire(&first));
  *out = std::move(appender);
  return {};
}

Status Appender::run(const RunArgs& args, crossflash_buffer unused) {
  const Problem& p = problem_;
  if (p.batch == 0 || p.seq_q == 0) return {};
  const auto tensor = [&](TensorId id) -> const Tensor& { return p.tensor(id); };
  const bool rotates = p.append.rotary > 0;
  const Move moves[] = {{p.append.new_k, tensor(TensorId::k), args.option(OptionId::new_k),
                         args.buffer(TensorId::k), false, rotates},
                        {p.append.new_v, tensor(TensorId::v), args.option(OptionId::new_v),
                         args.buffer(TensorId::v), false, false},
                        {tensor(TensorId::q), p.append.rotated_q, args.buffer(TensorId::q),
                         args.option(OptionId::rotated_q), true, true}};
  RecordingPool::Lease recording;
  CROSSFLASH_TRY(recordings_.acquire(&recording));
  CROSSFLASH_TRY(recording->begin());
  MoveBinder binder(p, caps_, args, unused);
  for (const Move& move : std::span(moves).first(rotates ? 3 : 2)) {
    if (move.source.empty() || move.target.empty()) continue;
    // New rows and queries may be views of one buffer, as may keys and values.
    if (&move != moves) recording->barrier();
    cf_append a = binder.bind(move);
    CROSSFLASH_TRY(recording->bind(*pipeline_, binder.bindings()));
    const std::int64_t units = (move.source.width - a.rotary / 2) / a.run;
    const std::uint64_t groups = groups_of(p, move.source.heads, units);
    for (std::uint64_t first = 0; first < groups; first += caps_.groups) {
      a.first_group = static_cast<uint>(first);
      recording->push(&a, sizeof a);
      recording->dispatch(
          static_cast<std::uint32_t>(std::min<std::uint64_t>(caps_.groups, groups - first)));
    }
  }
  return recording->submit();
}

}  // namespace crossflash::vulkan
