// SPDX-License-Identifier: MIT
// item.h: which part of the problem a block does, and where its rows lie. Blocks are counted slice
// first where there are any, then tile, then head, then batch. Tiles are taken from the last: under
// a causal mask, the common one, late queries (and early keys, so grad_kv counts from the first)
// have the most to do.
#pragma once

#include "common/shared/sequence.h"
#include "hip/kernels/launch.h"
#include "hip/tile/copy.h"

namespace crossflash::hip {

// One sequence of the batch: its lengths, what its queries see, and where its rows begin in packed
// tensors. Without options these are the problem's, and cost no register.
template <bool kGeneral>
struct Sequence {
  const KernelArguments& a;

  CF_DEVICE Sequence(const KernelArguments& arguments, int /*batch*/) : a(arguments) {}
  CF_DEVICE int seq_q() const { return a.seq_q; }
  CF_DEVICE int seq_k() const { return a.visibility.seq_k; }
  CF_DEVICE const shared::cf_visibility& visibility() const { return a.visibility; }
  CF_DEVICE int batch_q(int batch) const { return batch; }  // of the tensors that queries lie in
  CF_DEVICE int batch_k(int batch) const { return batch; }
  CF_DEVICE int first_q() const { return 0; }
  CF_DEVICE int first_k() const { return 0; }
  // Rows of outputs: those of a padded sequence's padding are written too.
  CF_DEVICE int written_q() const { return a.seq_q; }
  CF_DEVICE int written_k() const { return a.visibility.seq_k; }
};

template <>
struct Sequence<true> {
  const KernelArguments& arguments;
  shared::cf_rows queries, keys;
  shared::cf_visibility seen;
  bool packed_q, packed_k, paged;

  CF_DEVICE Sequence(const KernelArguments& a, int batch)
      : arguments(a),
        queries(rows_of(a.options.rows_q, batch, a.seq_q)),
        keys(rows_of(a.options.rows_k, batch, a.visibility.seq_k)),
        seen(shared::cf_visibility_of(a.visibility, a.options.top_left, queries.count, keys.count)),
        packed_q(a.options.rows_q.offsets),
        packed_k(a.options.rows_k.offsets),
        paged(a.options.pages.size > 0) {}
  CF_DEVICE int seq_q() const { return queries.count; }
  CF_DEVICE int seq_k() const { return keys.count; }
  CF_DEVICE const shared::cf_visibility& visibility() const { return seen; }
  CF_DEVICE int batch_q(int batch) const { return packed_q ? 0 : batch; }
  CF_DEVICE int batch_k(int batch) const { return packed_k || paged ? 0 : batch; }
  CF_DEVICE int first_q() const { return queries.first; }
  CF_DEVICE int first_k() const { return keys.first; }
  CF_DEVICE int written_q() const { return packed_q ? queries.count : arguments.seq_q; }
  CF_DEVICE int written_k() const { return packed_k ? keys.count : arguments.visibility.seq_k; }

 private:
  static CF_DEVICE int index(const KernelSequences& s, int n) {
    if (!s.wide) return static_cast<const std::int32_t*>(s.data)[n];
    const auto x = static_cast<const std::uint64_t*>(s.data)[n];
    return shared::cf_index64(static_cast<shared::uint>(x), static_cast<shared::uint>(x >> 32));
  }
  static CF_DEVICE shared::cf_rows rows_of(const KernelSequences& s, int batch, int most) {
    if (!s.given) return {0, most};
    if (!s.offsets) return shared::cf_padded_rows(index(s, batch), most);
    return shared::cf_packed_rows(index(s, batch), index(s, batch + 1), s.total, most);
  }
};

// Which of the slices of the output's columns that share a tile is this block's.
struct SliceItem {
  int slice;       // of those in launch.h's slices()
  unsigned block;  // what block this would be if there were no slices

  CF_DEVICE SliceItem(KernelPass pass, int width, const KernelArguments& a) {
    const auto count = static_cast<unsigned>(slices(pass, width, a));
    slice = static_cast<int>(blockIdx.x % count);
    block = blockIdx.x / count;
  }
};

struct QueryItem {
  int batch, head, head_kv, first;  // `first` query of the tile

  CF_DEVICE QueryItem(const KernelArguments& a, int rows, unsigned block = blockIdx.x) {
    const unsigned tiles = static_cast<unsigned>((a.seq_q + rows - 1) / rows);
    const unsigned n = block / tiles;
    first = static_cast<int>(tiles - 1 - block % tiles) * rows;
    batch = static_cast<int>(n / static_cast<unsigned>(a.heads_q));
    head = static_cast<int>(n % static_cast<unsigned>(a.heads_q));
    head_kv = head / a.group;
  }
  CF_DEVICE shared::uint flat(const KernelArguments& a) const {
    return static_cast<shared::uint>(batch * a.heads_q + head);
  }
};

// kTogether heads take turns tile by tile, so that a launch ends with little blocks of many heads;
// no more of them, so that their queries stay in the cache.
struct KeyItem {
  static constexpr unsigned kTogether = 8;
  int batch, head_kv, first;

  CF_DEVICE KeyItem(const KernelArguments& a, int rows, unsigned block = blockIdx.x) {
    const unsigned tiles = static_cast<unsigned>((a.visibility.seq_k + rows - 1) / rows);
    const unsigned heads = static_cast<unsigned>(a.heads_q / a.group);
    const unsigned before = block / (tiles * kTogether) * kTogether;  // heads of any batch
    const unsigned left = heads * static_cast<unsigned>(a.batch) - before;
    const unsigned together = left < kTogether ? left : kTogether;
    const unsigned n = block - before * tiles;
    const unsigned head = before + n % together;
    first = static_cast<int>(n / together) * rows;
    batch = static_cast<int>(head / heads);
    head_kv = static_cast<int>(head % heads);
  }
};

// A head without its first columns.
template <class T>
CF_DEVICE Rows<T> from_column(const Rows<T>& rows, int column) {
  return Rows<T>(rows.data, column, rows.stride, rows.width - column);
}

// Of a split forward. The queries of all query heads of a group are packed into rows: row n is
// query n / group of its head n % group, so that a tile is of neighbouring queries, which see the
// same keys. Tiles are counted before splits, since tiles of one split read the same keys.
struct SplitItem {
  int batch, head_kv, split, group, first;  // `first` row of the tile

  CF_DEVICE SplitItem(const KernelArguments& a, int rows) : group(a.group) {
    const unsigned tiles = static_cast<unsigned>((a.seq_q * a.group + rows - 1) / rows);
    const unsigned heads = static_cast<unsigned>(a.heads_q / a.group);
    const unsigned n = blockIdx.x / tiles;
    const unsigned m = n / static_cast<unsigned>(a.splits);
    first = static_cast<int>(blockIdx.x % tiles) * rows;
    split = static_cast<int>(n % static_cast<unsigned>(a.splits));
    batch = static_cast<int>(m / heads);
    head_kv = static_cast<int>(m % heads);
  }
  CF_DEVICE int query(int row) const { return (first + row) / group; }
  CF_DEVICE int head(int row) const { return head_kv * group + (first + row) % group; }
  // Of the group's first head.
  CF_DEVICE shared::uint flat(const KernelArguments& a) const {
    return static_cast<shared::uint>(batch * a.heads_q + head_kv * group);
  }
};

// From the tensor's row `first` on: where a packed sequence begins.
template <class T>
CF_DEVICE Rows<T> head_rows(const KernelTensor& t, int batch, int head, int width, int first = 0) {
  return Rows<T>(t.data, batch * t.batch + head * t.head + first * t.seq, t.seq, width);
}

CF_DEVICE float* head_values(const KernelRows& t, int batch, int head, int first = 0) {
  return t.data + batch * t.batch + head * t.head + first * t.seq;
}

// The pages that a sequence's keys lie in, if they do; without options none can.
template <bool kGeneral>
struct KeyPages {
  CF_DEVICE KeyPages(const KernelArguments&, const KernelTensor&, int /*batch*/) {}
};

template <>
struct KeyPages<true> {
  Pages pages;

  CF_DEVICE KeyPages(const KernelArguments& a, const KernelTensor& t, int batch)
      : pages{a.options.pages.table + std::int64_t{batch} * a.options.pages.of_sequence,
              a.options.pages.size, a.options.pages.count, t.batch} {}
};

// tile = rows [first, ...) of the `count` keys of a sequence's head.
template <int kThreads, class Tile, class T, bool kGeneral>
CF_DEVICE void copy_keys(Tile tile, const Rows<T>& rows, const KeyPages<kGeneral>& keys, int first,
                         int count) {
  if constexpr (kGeneral) {
    if (keys.pages.size > 0) {
      copy_in_pages<kThreads>(tile, rows, keys.pages, first, count);
      return;
    }
  }
  copy_in<kThreads>(tile, rows, first, count);
}

// m, l and o of one row and stretch of the keys.
CF_DEVICE float* split_state(const KernelArguments& a, int split, int batch, int head, int i) {
  const std::int64_t n = static_cast<std::int64_t>(split) * a.batch + batch;
  return a.states.data + n * a.states.batch + head * a.states.head + i * a.states.seq;
}

}  // namespace crossflash::hip
