// SPDX-License-Identifier: MIT
#include "tests/conformance/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "common/half.h"
#include "tests/conformance/sequences.h"

namespace crossflash::conformance {
namespace {

constexpr auto kGuardByte = std::byte{0xa5};
constexpr auto kInputGuardByte = std::byte{0xff};  // NaN in every type
constexpr std::int64_t kOddGuard = 33;  // half types then start in the middle of a 32-bit word

// Calls f(first element within the block, first index in contiguous order) for each row of `width`.
template <typename Function>
void for_each_row(const View& view, Function&& f) {
  const Tensor& t = view.tensor;
  std::size_t n = 0;
  for (std::int64_t b = 0; b < t.batch; ++b)
    for (std::int64_t s = 0; s < t.seq; ++s)
      for (std::int64_t h = 0; h < t.heads; ++h, n += static_cast<std::size_t>(t.width))
        f(view.base + b * t.strides.batch + s * t.strides.seq + h * t.strides.head, n);
}

crossflash_strides strides_of(std::int64_t batch, std::int64_t seq, std::int64_t head) {
  // Of an axis without elements no stride is needed, but a positive one is asked for.
  return {std::max<std::int64_t>(batch, 1), std::max<std::int64_t>(seq, 1), head, 1};
}

crossflash_strides transposed(std::int64_t seq, std::int64_t heads, std::int64_t width) {
  return strides_of(heads * seq * width, width, std::max<std::int64_t>(seq * width, 1));
}

// Odd gaps behind every row, every position and every sequence.
crossflash_strides padded(std::int64_t seq, std::int64_t heads, std::int64_t width) {
  const std::int64_t head = width + 3;
  const std::int64_t row = heads * head + 5;
  return strides_of(seq * row + 7, row, head);
}

// Contiguous along the axes there are, `gap` elements behind every row; zero, the library's own
// default, for all axes without gaps.
crossflash_score_strides along(const Axes& axes, const crossflash_problem& p, std::int64_t row,
                               std::int64_t gap) {
  if (axes.all() && gap == 0) return {};
  std::int64_t size = 1;
  const auto axis = [&size](bool there, std::int64_t extent) -> std::int64_t {
    if (!there) return 0;
    return std::exchange(size, size * std::max<std::int64_t>(extent, 1));
  };
  crossflash_score_strides s{};
  s.seq_k = axis(axes.seq_k, row);
  if (axes.seq_k) size += gap;
  s.seq_q = axis(axes.seq_q, p.seq_q);
  s.head = axis(axes.head, p.heads_q);
  s.batch = axis(axes.batch, p.batch);
  return s;
}

void apply_axes(const Case& c, const crossflash_problem& p, crossflash_score_strides* bias,
                crossflash_score_strides* mask) {
  const bool gaps = c.layout == Layout::padded;
  if (p.bias != CROSSFLASH_ABSENT)
    *bias = along(c.bias_axes, p, p.seq_k, gaps ? 3 - p.seq_k % 2 : 0);  // odd rows
  if (p.mask != 0) *mask = along(c.mask_axes, p, (p.seq_k + 31) / 32, gaps ? 1 : 0);
}

std::int64_t packed_width(const crossflash_problem& p) { return std::max(p.d, p.d_v); }

bool shares_block(Layout layout, TensorId id) {
  if (layout != Layout::packed_qkv) return false;
  return id == TensorId::k || id == TensorId::v || id == TensorId::grad_k || id == TensorId::grad_v;
}

}  // namespace

void apply_layout(const Case& c, crossflash_problem* p) {
  p->total_q = total_rows(c, p->rows_q, &Lengths::q);
  p->total_k = total_rows(c, p->rows_k, &Lengths::k);
  p->pages = p->page_size > 0 ? total_pages(c) : 0;
  apply_axes(c, *p, &p->bias_strides, &p->mask_strides);
  const std::int64_t rows_q = p->rows_q == CROSSFLASH_ROWS_OFFSETS ? p->total_q : p->seq_q;
  const std::int64_t rows_k = p->rows_k == CROSSFLASH_ROWS_OFFSETS ? p->total_k
                              : p->page_size > 0                   ? p->page_size
                                                                   : p->seq_k;
  const auto each = [&](auto&& strides) {
    p->q = p->grad_q = strides(rows_q, p->heads_q, p->d);
    p->k = p->grad_k = strides(rows_k, p->heads_kv, p->d);
    p->v = p->grad_v = strides(rows_k, p->heads_kv, p->d_v);
    p->o = p->grad_o = strides(rows_q, p->heads_q, p->d_v);
  };
  switch (c.layout) {
    case Layout::bshd:
      break;  // zero strides: the library's own default
    case Layout::bhsd:
      each(transposed);
      break;
    case Layout::padded:
      each(padded);
      break;
    case Layout::packed_qkv: {
      const std::int64_t row = (p->heads_q + 2 * p->heads_kv) * packed_width(*p);
      const auto strides = strides_of(rows_q * row, row, packed_width(*p));
      p->q = p->k = p->v = p->grad_q = p->grad_k = p->grad_v = strides;
      break;
    }
  }
}

Arrangement arrange(const Problem& problem, Layout layout) {
  Arrangement out;
  out.guard = layout == Layout::padded ? kOddGuard : out.guard;
  const std::int64_t width = std::max(problem.d, problem.d_v);  // packed_width
  for (std::size_t n = 0; n < kTensorCount; ++n) {
    const auto id = static_cast<TensorId>(n);
    if (id >= TensorId::grad_o && !problem.backward) break;
    Place& place = out.places[n];
    place.view.tensor = problem.tensors[n];
    if (id == TensorId::lse) {
      std::swap(place.view.tensor.seq, place.view.tensor.heads);
      std::swap(place.view.tensor.strides.seq, place.view.tensor.strides.head);
    }
    if (shares_block(layout, id)) {
      const bool value = id == TensorId::v || id == TensorId::grad_v;
      const bool gradient = id >= TensorId::grad_o;
      place.block = out.place(gradient ? TensorId::grad_q : TensorId::q).block;
      place.view.base = (problem.heads_q + (value ? problem.heads_kv : 0)) * width;
    } else {
      place.block = out.extents.size();
      out.extents.push_back(0);
    }
    std::int64_t& extent = out.extents[place.block];
    extent = std::max(extent, place.view.base + place.view.tensor.extent());
  }
  return out;
}

Block::Block(crossflash_dtype dtype, std::int64_t extent, std::int64_t guard, Role role, float gap)
    : dtype_(dtype), size_(dtype_size(dtype)), guard_(guard), extent_(extent) {
  const auto elements = static_cast<std::size_t>(extent + 2 * guard);
  bytes_.assign(elements * dtype_size(dtype), kGuardByte);
  owned_.assign(elements, false);
  if (role == Role::input)
    for (std::size_t n = 0; n < elements; ++n) store_element(dtype, bytes_.data(), n, gap);
}

Block::Block(std::size_t size, std::span<const std::byte> contents, std::int64_t guard)
    : size_(size), guard_(guard), extent_(static_cast<std::int64_t>(contents.size() / size)) {
  const std::size_t before = static_cast<std::size_t>(guard) * size;
  bytes_.assign(contents.size() + 2 * before, kInputGuardByte);
  owned_.assign(bytes_.size() / size, false);
  std::copy(contents.begin(), contents.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(before));
}

void Block::write(const View& view, std::span<const float> values) {
  for_each_row(view, [&](std::int64_t element, std::size_t n) {
    for (std::int64_t x = 0; x < view.tensor.width; ++x)
      store_element(dtype_, bytes_.data(), static_cast<std::size_t>(guard_ + element + x),
                    values[n + static_cast<std::size_t>(x)]);
  });
}

void Block::poison(const View& view, const std::vector<bool>& which) {
  for_each_row(view, [&](std::int64_t element, std::size_t n) {
    for (std::int64_t x = 0; x < view.tensor.width; ++x) {
      if (!which.empty() && !which[n + static_cast<std::size_t>(x)]) continue;
      const auto at = static_cast<std::size_t>(guard_ + element + x);
      owned_[at] = true;
      store_element(dtype_, bytes_.data(), at, std::numeric_limits<float>::quiet_NaN());
    }
  });
}

std::vector<float> Block::read(const View& view) const {
  std::vector<float> values(view.count());
  for_each_row(view, [&](std::int64_t element, std::size_t n) {
    for (std::int64_t x = 0; x < view.tensor.width; ++x)
      values[n + static_cast<std::size_t>(x)] =
          load_element(dtype_, bytes_.data(), static_cast<std::size_t>(guard_ + element + x));
  });
  return values;
}

std::uint64_t Block::offset(const View& view) const {
  return static_cast<std::uint64_t>(guard_ + view.base) * size_;
}

std::string Block::damage(const Block& before) const {
  for (std::size_t n = 0; n < owned_.size(); ++n) {
    if (before.owned_[n] ||
        std::memcmp(bytes_.data() + n * size_, before.bytes_.data() + n * size_, size_) == 0)
      continue;
    const auto at = static_cast<std::int64_t>(n) - guard_;
    const char* where = at < 0          ? "in the guard before it"
                        : at >= extent_ ? "in the guard behind it"
                                        : "outside the elements to be written";
    return fmt::format("element {} of the buffer was changed, {}", at, where);
  }
  return {};
}

std::string coordinates(TensorId id, const Tensor& tensor, std::size_t n) {
  const auto width = static_cast<std::size_t>(tensor.width);
  const auto heads = static_cast<std::size_t>(tensor.heads);
  const auto seq = static_cast<std::size_t>(tensor.seq);
  const std::size_t row = n / width;
  const std::size_t inner = row % heads, middle = row / heads % seq, batch = row / heads / seq;
  if (id == TensorId::lse)
    return fmt::format("(batch {}, head {}, query {})", batch, middle, inner);
  const bool keys =
      id == TensorId::k || id == TensorId::v || id == TensorId::grad_k || id == TensorId::grad_v;
  return fmt::format("(batch {}, {} {}, head {}, element {})", batch, keys ? "key" : "query",
                     middle, inner, n % width);
}

}  // namespace crossflash::conformance
