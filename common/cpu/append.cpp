// SPDX-License-Identifier: MIT
#include "common/cpu/append.h"

#include "common/cpu/sequence.h"
#include "common/shared/rotary.h"

namespace crossflash::cpu {
namespace {

// The angles of one row.
struct Angles {
  const float *cosine, *sine;

  Angles(const Append& a, const NewRows& rows, int position) {
    const std::ptrdiff_t first =
        shared::cf_rotary_row(position, static_cast<int>(a.positions)) * (a.rotary / 2);
    cosine = rows.cosine + first;
    sine = rows.sine + first;
  }
};

std::size_t row_bytes(const Tensor& t) {
  return static_cast<std::size_t>(t.width) * dtype_size(t.dtype);
}

void copy_row(const HostTensor& from, const std::byte* source, std::byte* target) {
  if (source != target) std::memcpy(target, source, row_bytes(*from.tensor));
}

// `target` holds a copy of `source`, or is it.
template <crossflash_dtype kType>
void turn_row(const Append& a, const Angles& angles, const std::byte* source, std::byte* target) {
  const auto rotary = static_cast<int>(a.rotary);
  for (int n = 0; n < rotary / 2; ++n) {
    const auto first = static_cast<std::size_t>(shared::cf_rotary_x(n, a.interleaved));
    const auto second = static_cast<std::size_t>(shared::cf_rotary_y(n, rotary, a.interleaved));
    const float x = load_element(kType, source, first);
    const float y = load_element(kType, source, second);
    const float cosine = angles.cosine[n], sine = angles.sine[n];
    store_element(kType, target, first, shared::cf_turned_x(x, y, cosine, sine));
    store_element(kType, target, second, shared::cf_turned_y(x, y, cosine, sine));
  }
}

void turn_row(const Append& a, const Angles& angles, crossflash_dtype dtype,
              const std::byte* source, std::byte* target) {
  switch (dtype) {  // once for a row, so that the loops inside stay free of it
    case CROSSFLASH_F32:
      return turn_row<CROSSFLASH_F32>(a, angles, source, target);
    case CROSSFLASH_F16:
      return turn_row<CROSSFLASH_F16>(a, angles, source, target);
    case CROSSFLASH_BF16:
      return turn_row<CROSSFLASH_BF16>(a, angles, source, target);
  }
}

// All heads of one row of a sequence's queries.
void add_row(const Run& run, const NewRows& rows, const Sequence& s, int i) {
  const Problem& p = run.problem;
  const int position = shared::cf_append_position(i, s.queries.count, s.keys.count);
  const auto copy_turned = [&](const HostTensor& from, const HostTensor& to, const Rows& where,
                               std::int64_t row, std::int64_t h) {
    const std::byte* source = from.row(s.queries, h, i);
    std::byte* target = to.row(where, h, row);
    copy_row(from, source, target);
    if (p.append.rotary > 0)
      turn_row(p.append, Angles(p.append, rows, position), p.dtype, source, target);
  };
  for (std::int64_t h = 0; position >= 0 && h < p.heads_kv; ++h) {
    copy_turned(rows.k, run.k, s.keys, position, h);
    copy_row(rows.v, rows.v.row(s.queries, h, i), run.v.row(s.keys, h, position));
  }
  for (std::int64_t h = 0; p.append.rotary > 0 && h < p.heads_q; ++h)
    copy_turned(run.q, rows.rotated_q, s.queries, i, h);
}

}  // namespace

void append(const Run& run, const NewRows& rows) {
  const Problem& p = run.problem;
  for_each_tile(p.batch, p.seq_q, [&](std::int64_t b, int begin, int end) {
    const Sequence sequence(run, b);
    const Span span(p.sequences.q, sequence.queries, begin, end);
    for (int i = span.begin; i < span.live; ++i) add_row(run, rows, sequence, i);
    for (std::int64_t h = 0; p.append.rotary > 0 && h < p.heads_q; ++h)
      clear_rows(rows.rotated_q, sequence.queries, h, span.live, span.end);
  });
}

}  // namespace crossflash::cpu
