// SPDX-License-Identifier: MIT
// item.h: which part of the problem a block does, and where its rows lie. Blocks are counted tile
// first, then head, then batch. Tiles are taken from the last: under a causal mask, the common one,
// late queries (and early keys, so grad_kv counts from the first) have the most to do.
#pragma once

#include "hip/kernels/launch.h"
#include "hip/tile/copy.h"

namespace crossflash::hip {

struct QueryItem {
  int batch, head, head_kv, first;  // `first` query of the tile

  CF_DEVICE QueryItem(const KernelArguments& a, int rows) {
    const unsigned tiles = static_cast<unsigned>((a.seq_q + rows - 1) / rows);
    const unsigned n = blockIdx.x / tiles;
    first = static_cast<int>(tiles - 1 - blockIdx.x % tiles) * rows;
    batch = static_cast<int>(n / static_cast<unsigned>(a.heads_q));
    head = static_cast<int>(n % static_cast<unsigned>(a.heads_q));
    head_kv = head / a.group;
  }
  CF_DEVICE shared::uint flat(const KernelArguments& a) const {
    return static_cast<shared::uint>(batch * a.heads_q + head);
  }
};

struct KeyItem {
  int batch, head_kv, first;

  CF_DEVICE KeyItem(const KernelArguments& a, int rows) {
    const unsigned tiles = static_cast<unsigned>((a.visibility.seq_k + rows - 1) / rows);
    const unsigned n = blockIdx.x / tiles;
    const unsigned heads = static_cast<unsigned>(a.heads_q / a.group);
    first = static_cast<int>(blockIdx.x % tiles) * rows;
    batch = static_cast<int>(n / heads);
    head_kv = static_cast<int>(n % heads);
  }
};

template <class T>
CF_DEVICE Rows<T> head_rows(const KernelTensor& t, int batch, int head, int width) {
  return Rows<T>(t.data, batch * t.batch + head * t.head, t.seq, width);
}

CF_DEVICE float* head_values(const KernelRows& t, int batch, int head) {
  return t.data + batch * t.batch + head * t.head;
}

}  // namespace crossflash::hip
