// SPDX-License-Identifier: MIT
// copy.h: rows of a tensor to a shared tile and back, by all threads of a block. Rows and columns
// outside the tensor become zeros in the tile and are never touched in the tensor. Copies into
// shared memory may be on their way until copy_wait(); a barrier shows them to other threads.
#pragma once

#include "hip/tile/shared_tile.h"

namespace crossflash::hip {

// Rows of one head; `data` is row 0. Chunks are moved whole where all rows are aligned to them.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;
  int width;
  bool aligned;

  CF_DEVICE Rows(void* base, std::int64_t offset, std::int64_t row_stride, int columns)
      : data(static_cast<T*>(base) + offset), stride(row_stride), width(columns) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const auto step = static_cast<std::uintptr_t>(stride) * sizeof(T);
    const auto bytes = static_cast<std::uintptr_t>(width) * sizeof(T);
    aligned = ((address | step | bytes) & 15u) == 0;
  }
};

// A chunk, or zeros without looking at `from`.
CF_DEVICE void copy_chunk(void* to, const void* from, bool there) {
#ifdef __CUDACC__
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
#else
  *static_cast<uint4*>(to) = there ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
#endif
}

CF_DEVICE void move_chunk(void* to, const void* from) {
  *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
}

// Ends a group of copies.
CF_DEVICE void copy_commit() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Until at most kPending groups of this thread's copies are on their way.
template <int kPending>
CF_DEVICE void copy_wait() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// Calls f(row, chunk, from) for this thread's share of the chunks of a tile, with where the chunk
// starts in the tensor, whose row 0 of the tile is at `origin`. Addresses are stepped along, not
// computed, to hold few registers.
template <int kThreads, class Tile, class T, class F>
CF_DEVICE void for_each_chunk(T* origin, std::int64_t stride, F f) {
  constexpr int kAll = Tile::kRows * Tile::kChunks;
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (kThreads % Tile::kChunks == 0 && kAll % kThreads == 0) {
    constexpr int kStep = kThreads / Tile::kChunks;
    const int row = thread / Tile::kChunks;
    const int chunk = thread % Tile::kChunks;
    T* at = origin + row * stride + chunk * Tile::kChunk;
#pragma unroll
    for (int x = 0; x < kAll / kThreads; ++x, at += kStep * stride) f(row + x * kStep, chunk, at);
  } else {
    for (int n = thread; n < kAll; n += kThreads) {
      const int row = n / Tile::kChunks;
      const int chunk = n % Tile::kChunks;
      f(row, chunk, origin + row * stride + chunk * Tile::kChunk);
    }
  }
}

// tile = rows [first, first + Tile::kRows) of a tensor that has `count` rows.
template <int kThreads, class Tile, class T = typename Tile::T>
CF_DEVICE void copy_in(Tile tile, const Rows<T>& rows, int first, int count) {
  const T* origin = rows.data + first * rows.stride;
  const int left = count - first;
  const int width = rows.width;
  if (rows.aligned) {
    for_each_chunk<kThreads, Tile>(origin, rows.stride, [=](int r, int c, const T* from) {
      const bool there = r < left && c * Tile::kChunk < width;
      copy_chunk(tile.chunk(r, c), from, there);
    });
    return;
  }
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int n = thread; n < Tile::kRows * Tile::kWidth; n += kThreads) {
    const int r = n / Tile::kWidth;
    const int c = n % Tile::kWidth;
    const bool there = first + r < count && c < rows.width;
    *tile.at(r, c) = there ? origin[r * rows.stride + c] : T{};
  }
}

// Rows [first, first + Tile::kRows) of a tensor that has `count` rows = tile.
template <int kThreads, class Tile, class T = typename Tile::T>
CF_DEVICE void copy_out(Tile tile, const Rows<T>& rows, int first, int count) {
  T* origin = rows.data + first * rows.stride;
  const int left = count - first;
  const int width = rows.width;
  if (rows.aligned) {
    for_each_chunk<kThreads, Tile>(origin, rows.stride, [=](int r, int c, T* to) {
      if (r < left && c * Tile::kChunk < width) move_chunk(to, tile.chunk(r, c));
    });
    return;
  }
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int n = thread; n < Tile::kRows * Tile::kWidth; n += kThreads) {
    const int r = n / Tile::kWidth;
    const int c = n % Tile::kWidth;
    if (first + r < count && c < rows.width) origin[r * rows.stride + c] = *tile.at(r, c);
  }
}

}  // namespace crossflash::hip
