// SPDX-License-Identifier: MIT
// copy.h: rows of a tensor to a shared tile and back, by all threads of a block. Rows and columns
// outside the tensor become zeros in the tile and are never touched in the tensor. Copies into
// shared memory may be on their way until copy_wait(); a barrier shows them to other threads.
#pragma once

#include "common/shared/sequence.h"
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

#ifdef __CUDACC__
// A chunk, or zeros without looking at `from`.
CF_DEVICE void copy_chunk(void* to, const void* from, bool there) {
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
#endif

CF_DEVICE void move_chunk(void* to, const void* from) {
  *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
}

// One f32 into shared memory, or 0 without looking at `from`.
CF_DEVICE void copy_value(float* to, const float* from, bool there) {
#ifdef __CUDACC__
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from),
               "r"(there ? 4 : 0)
               : "memory");
#else
  *to = there ? *from : 0.0f;
#endif
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

// Which chunks of a tile a thread copies: number n is chunk chunk(n) of row row(n).
template <int kThreads, class Tile>
struct OwnChunks {
  static constexpr int kAcross = Tile::kChunks < kThreads ? Tile::kChunks : kThreads;
  static constexpr int kInRow = Tile::kChunks / kAcross;
  static constexpr int kStep = kThreads / kAcross;  // rows from one to the next
  static constexpr int kCount = Tile::kRows / kStep * kInRow;
  static_assert(Tile::kChunks % kAcross == 0 && kThreads % kAcross == 0);
  static_assert(Tile::kRows % kStep == 0);

  const int thread = fresh(static_cast<int>(threadIdx.x));
  const int first_row = thread / kAcross;
  const int first_chunk = thread % kAcross;

  CF_DEVICE int row(int n) const { return first_row + n / kInRow * kStep; }
  CF_DEVICE int chunk(int n) const { return first_chunk + n % kInRow * kAcross; }
};

// Calls f(row, chunk, at) for this thread's chunks of a tile, with where the chunk starts in the
// tensor, whose row 0 of the tile is at `origin`. Addresses are stepped along, not computed, to
// hold few registers.
template <int kThreads, class Tile, class T, class F>
CF_DEVICE void for_each_chunk(T* origin, std::int64_t stride, F f) {
  using Own = OwnChunks<kThreads, Tile>;
  const Own own;
  T* at = origin + own.row(0) * stride + own.chunk(0) * Tile::kChunk;
  // f32 has twice the chunks, and needs the registers of all their addresses.
  constexpr int kUnroll = sizeof(T) == 4 ? 4 : Own::kCount;
#pragma unroll kUnroll
  for (int n = 0; n < Own::kCount; n += Own::kInRow, at += Own::kStep * stride)
#pragma unroll
    for (int c = 0; c < Own::kInRow; ++c)
      f(own.row(n), own.chunk(c), at + c * Own::kAcross * Tile::kChunk);
}

// tile = rows [first, first + Tile::kRows) of a tensor that has `count` rows.
template <int kThreads, class Tile, class T = typename Tile::T>
CF_DEVICE void copy_in(Tile tile, const Rows<T>& rows, int first, int count) {
  const T* origin = rows.data + first * rows.stride;
  const int left = count - first;
  const int width = rows.width;
  if (rows.aligned) {
#ifdef __CUDACC__
    for_each_chunk<kThreads, Tile>(origin, rows.stride, [=](int r, int c, const T* from) {
      copy_chunk(tile.chunk(r, c), from, r < left && c * Tile::kChunk < width);
    });
#else
    // Loads before stores, so that a batch is on its way together; what is not there loads row 0.
    // Blocks of few threads have most to copy each, and least registers left.
    using Own = OwnChunks<kThreads, Tile>;
    const Own own;
    constexpr int kBatch = Own::kCount < 8 ? Own::kCount : (kThreads < 128 ? 4 : 8);
    static_assert(Own::kCount % kBatch == 0);
#pragma unroll 1
    for (int batch = 0; batch < Own::kCount; batch += kBatch) {
      uint4 chunks[kBatch];
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        const int r = own.row(batch + n);
        const int c = own.chunk(batch + n) * Tile::kChunk;
        const bool there = r < left && c < width;
        chunks[n] =
            *reinterpret_cast<const uint4*>(there ? origin + r * rows.stride + c : rows.data);
      }
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        const int r = own.row(batch + n);
        const int c = own.chunk(batch + n);
        const bool there = r < left && c * Tile::kChunk < width;
        const uint4 x = chunks[n];
        *reinterpret_cast<uint4*>(tile.chunk(r, c)) =
            uint4{there ? x.x : 0u, there ? x.y : 0u, there ? x.z : 0u, there ? x.w : 0u};
      }
    }
#endif
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

// Rows in pages of `size`, `stride` elements from one of the pool's `count` to the next: row n lies
// in page table[n / size].
struct Pages {
  const std::int32_t* table;
  int size, count;
  std::int64_t stride;
};

// copy_in of rows in pages; `rows` is what it would be of the pool's first page.
template <int kThreads, class Tile, class T = typename Tile::T>
CF_DEVICE void copy_in_pages(Tile tile, const Rows<T>& rows, const Pages& pages, int first,
                             int count) {
  const int left = count - first;
  const auto row = [&](int r) {
    const auto n = static_cast<unsigned>(first + r);
    const auto size = static_cast<unsigned>(pages.size);
    const int page = shared::cf_page(pages.table[n / size], pages.count);
    return rows.data + page * pages.stride + static_cast<int>(n % size) * rows.stride;
  };
  if (rows.aligned && pages.stride % Tile::kChunk == 0) {
    using Own = OwnChunks<kThreads, Tile>;
    const Own own;
#pragma unroll 4
    for (int n = 0; n < Own::kCount; n += Own::kInRow) {
      const int r = own.row(n);
      const T* from = r < left ? row(r) : rows.data;
#pragma unroll
      for (int c = 0; c < Own::kInRow; ++c) {
        const int chunk = own.chunk(c);
        const bool there = r < left && chunk * Tile::kChunk < rows.width;
#ifdef __CUDACC__
        copy_chunk(tile.chunk(r, chunk), from + chunk * Tile::kChunk, there);
#else
        uint4 x{};
        if (there) x = *reinterpret_cast<const uint4*>(from + chunk * Tile::kChunk);
        *reinterpret_cast<uint4*>(tile.chunk(r, chunk)) = x;
#endif
      }
    }
    return;
  }
#pragma unroll 1
  for (int n = static_cast<int>(threadIdx.x); n < Tile::kRows * Tile::kWidth; n += kThreads) {
    const int r = n / Tile::kWidth;
    const int c = n % Tile::kWidth;
    *tile.at(r, c) = r < left && c < rows.width ? row(r)[c] : T{};
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
