// SPDX-License-Identifier: MIT
// wide.h: what the kernels of the largest head sizes share. No head lies anywhere whole: products
// of two heads are summed over slices of their depth, which pass through two stages of shared
// memory, one on its way while the other is multiplied. Of the output a block owns a slice of
// kSlice columns; the blocks of other slices compute the same weights again.
#pragma once

#include "hip/kernels/item.h"
#include "hip/tile/fragment.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_, bool kForward>
struct WideConfig {
  using T = T_;
  static constexpr int kHead = kHead_;
  using Mma = typename Arch::template Mma<T, kHead>;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr auto kTile = Arch::wide_tile(static_cast<int>(sizeof(T)), kForward);
  static constexpr int kRows = kTile.rows;        // that a block owns
  static constexpr int kColumns = kTile.columns;  // that it walks in
  static constexpr int kSlice = 256;              // columns of the output
  static constexpr int kDepth = 64;               // columns of a head that are summed at a time
  static constexpr int kThreads = kTile.waves * Mma::kWave;
  static constexpr int kMinBlocks = kTile.blocks;
  static constexpr int kRowBlocks = kRows / (16 * kTile.waves);  // of a wave
  using RowTile = SharedTile<T, kRows, kDepth>;
  using ColumnTile = SharedTile<T, kColumns, kDepth>;
  using ValueTile = SharedTile<T, kColumns, kSlice>;  // what the weights are multiplied with
  using OutputTile = SharedTile<T, kRows, kSlice>;    // takes the place of all others in the end
  static constexpr bool kShareStatistics = true;
  // Statistics of the queries: two of each row in grad_q, three of each column in grad_kv.
  static constexpr int kStatistics = 2 * kRows > 3 * kColumns ? 2 * kRows : 3 * kColumns;
  static constexpr int kLoopBytes = 2 * (RowTile::kBytes + ColumnTile::kBytes) + ValueTile::kBytes +
                                    kStatistics * static_cast<int>(sizeof(float));
  static constexpr int kSharedBytes =
      kLoopBytes > OutputTile::kBytes ? kLoopBytes : OutputTile::kBytes;
  static_assert(kGeneral && kRowBlocks * 16 * kTile.waves == kRows && kColumns % 16 == 0);
  static_assert(kSharedBytes <= Arch::kSharedBytes);
};

// Rows [first, ...) of a head that has `count`, of a sequence that begins at row `start` of the
// tensor. Made anew wherever it is used: held over the loop, what is known of four heads costs more
// registers than there are.
template <class T>
struct HeadTile {
  Rows<T> rows;
  int first, count;

  CF_DEVICE HeadTile(const KernelTensor& t, int batch, int head, int width, int first_row, int end,
                     int start = 0)
      : rows(head_rows<T>(t, fresh_uniform(batch), head, width, start)),
        first(first_row),
        count(end) {}
};

// The same of keys, which may lie in pages.
template <class T>
struct KeyHeadTile : HeadTile<T> {
  KeyPages<true> pages;

  CF_DEVICE KeyHeadTile(const KernelArguments& a, const KernelTensor& t,
                        const Sequence<true>& sequence, int batch, int head, int width,
                        int first_row)
      : HeadTile<T>(t, sequence.batch_k(batch), head, width, first_row, sequence.seq_k(),
                    sequence.first_k()),
        pages(a, t, batch) {}
};

// tile = a head's columns from `column` on.
template <int kThreads, class Tile, class T>
CF_DEVICE void copy_columns(Tile tile, const HeadTile<T>& head, int column) {
  copy_in<kThreads>(tile, from_column(head.rows, column), head.first, head.count);
}
template <int kThreads, class Tile, class T>
CF_DEVICE void copy_columns(Tile tile, const KeyHeadTile<T>& head, int column) {
  copy_keys<kThreads>(tile, from_column(head.rows, column), head.pages, head.first, head.count);
}

// acc += A B^T for a tile of rows A and one of columns B, over the whole of their depth, in its
// order: as row_dot sums D, so that dP and D round alike.
template <class C>
class DeepProduct {
 public:
  using T = typename C::T;
  explicit CF_DEVICE DeepProduct(SharedSpace& space) : rows_(space), columns_(space) {}

  // The first slice is on its way. The stage it goes to is not in use: the product before, of which
  // other waves may not be done, ended in the other one.
  template <class A, class B>
  CF_DEVICE void start(const A& a, const B& b) {
    copy(a, b, 0);
  }

  // The rest, once started with the same tiles. Passes a barrier.
  template <Product kProduct = Product::plain, class F, class A, class B>
  CF_DEVICE void add(F& acc, const A& a, const B& b) {
#pragma unroll 1
    for (int x = 0; x < a.rows.width; x += C::kDepth) {
      copy_wait<0>();
      __syncthreads();  // this slice is there, and the one before no longer in use
      const auto row_tile = rows_.at(stage_);
      const auto column_tile = columns_.at(stage_);
      if (x + C::kDepth < a.rows.width) copy(a, b, x + C::kDepth);
      const int thread = fresh(static_cast<int>(threadIdx.x));
      const int wave_row = thread / C::Mma::kWave * C::kRowBlocks * 16;
      add_product<kProduct>(acc, row_tile, wave_row, column_tile, 0, thread % C::Mma::kWave);
    }
  }

 private:
  template <class A, class B>
  CF_DEVICE void copy(const A& a, const B& b, int column) {
    stage_ ^= 1;
    copy_columns<C::kThreads>(rows_.at(stage_), a, column);
    copy_columns<C::kThreads>(columns_.at(stage_), b, column);
    copy_commit();
  }

  SharedRing<typename C::RowTile, 2> rows_;
  SharedRing<typename C::ColumnTile, 2> columns_;
  int stage_ = 0;  // of the last slice on its way
};

}  // namespace crossflash::hip
