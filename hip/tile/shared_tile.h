// SPDX-License-Identifier: MIT
// shared_tile.h: a tile of rows in shared memory, cut into chunks of 16 bytes. Chunk c of row r
// lies at place c ^ swizzle(r) of its row, so that the same chunk of 8 neighbouring rows, which is
// what a matrix instruction's operands ask for at a time, falls into 8 different groups of 4 banks:
//
//   row 0 |0|1|2|3|4|5|6|7|      128 bytes a row
//   row 1 |1|0|3|2|5|4|7|6|
//   row 2 |2|3|0|1|6|7|4|5|      rows of 64 (mod 128) bytes move on by one for every two rows
#pragma once

#include "hip/tile/element.h"

namespace crossflash::hip {

template <class T_, int kRows_, int kWidth_>
struct SharedTile {
  using T = T_;
  static constexpr int kRows = kRows_;
  static constexpr int kWidth = kWidth_;
  static constexpr int kChunk = 16 / sizeof(T);  // elements
  static constexpr int kChunks = kWidth / kChunk;
  static constexpr int kBytes = kRows * kWidth * static_cast<int>(sizeof(T));
  static_assert(kWidth % kChunk == 0 && kChunks % 4 == 0);

  T* data;

  static constexpr int kPeriod = kChunks % 8 == 0 ? 8 : 4;  // chunks that are permuted together

  static CF_DEVICE int swizzle(int row) { return kPeriod == 8 ? row & 7 : (row >> 1) & 3; }
  CF_DEVICE T* chunk(int row, int c) const {
    return data + (row * kChunks + (c ^ swizzle(row))) * kChunk;
  }
  // chunk(row0 + row, c0 + c) for row0 a multiple of 8 and c below the power of 2 that c0 is a
  // multiple of. Where row0 and c0 are constants few addresses are left to compute: they differ by
  // constants.
  CF_DEVICE T* chunk_of_block(int row0, int row, int c0, int c) const {
    const int place = c0 / kPeriod * kPeriod + ((c0 % kPeriod) ^ c ^ swizzle(row));
    return data + (row0 * kChunks + row * kChunks + place) * kChunk;
  }
  // Four elements, at(row0 + row + n, column0 + 4 * quad), for row0 a multiple of 8, row of a power
  // of 2 above n, and column0 of 64. The same of its addresses: one for each n.
  CF_DEVICE T* quad(int row0, int row, int n, int column0, int quad) const {
    static_assert(kPeriod == 8 && kChunk == 8);
    const int place = (quad / 2) ^ swizzle(row) ^ swizzle(n);
    return data + ((row0 + n + row) * kChunks + column0 / 8 + place) * kChunk + quad % 2 * 4;
  }
  // The tile without its first columns, a multiple of what the swizzle permutes together.
  CF_DEVICE SharedTile from_column(int column) const {
    SharedTile tile;
    tile.data = data + column;
    return tile;
  }
  // The tile without its first rows, a multiple of 8.
  CF_DEVICE SharedTile from_row(int row) const {
    SharedTile tile;
    tile.data = data + row * kWidth;
    return tile;
  }
  CF_DEVICE T* at(int row, int column) const {
    return chunk(row, column / kChunk) + column % kChunk;
  }
};

// Hands out a block's dynamic shared memory piece by piece.
struct SharedSpace {
  char* next;

  template <class Tile>
  CF_DEVICE Tile take() {
    Tile tile;
    tile.data = reinterpret_cast<typename Tile::T*>(next);
    next += Tile::kBytes;
    return tile;
  }
};

// kStages tiles, used in turn.
template <class Tile, int kStages>
struct SharedRing {
  Tile first;

  explicit CF_DEVICE SharedRing(SharedSpace& space) : first(space.take<Tile>()) {
    space.next += (kStages - 1) * Tile::kBytes;
  }
  CF_DEVICE Tile at(int stage) const {
    Tile tile;
    tile.data = first.data + stage * (Tile::kBytes / static_cast<int>(sizeof(typename Tile::T)));
    return tile;
  }
};

}  // namespace crossflash::hip
