// SPDX-License-Identifier: MIT
// query_sums.h: where the blocks of grad_all add up dQ, in f32. The workspace holds register tiles,
// not rows, so that a wave adds 16 bytes a lane to one stretch of memory: for each head 64 queries
// after 64 queries, the last padded, also that of each packed sequence; in them 16 after 16; in
// them 16 columns after 16 columns of the head size rounded up to 64; in them four values of each
// lane.
#pragma once

#include "hip/kernels/item.h"
#include "hip/tile/fragment.h"

namespace crossflash::hip {

struct QuerySums {
  static constexpr int kUnit = kSumUnit;  // to which queries and columns are padded
  float* data;                            // of a head of a sequence
  int width;                              // columns

  template <bool kGeneral>
  CF_DEVICE QuerySums(const KernelArguments& a, const Sequence<kGeneral>& sequence, int batch,
                      int head)
      : data(head_values(a.grad_q_sums, sequence.batch_q(batch), head)),
        width(static_cast<int>(a.grad_q_sums.seq)) {
    if constexpr (kGeneral)
      if (sequence.packed_q) data += packed_sum_row(sequence.first_q(), batch) * width;
  }

  // Whether there is anything at this query, or column.
  static CF_DEVICE bool holds(int at, int count) { return at / kUnit * kUnit < count; }

  // By all threads of a block: `rows` queries from here on become 0; both are multiples of kUnit.
  template <int kThreads>
  CF_DEVICE void clear(int query, int rows) const {
    uint4* const to = reinterpret_cast<uint4*>(data + static_cast<std::int64_t>(query) * width);
    for (int n = static_cast<int>(threadIdx.x); n < rows * width / 4; n += kThreads)
      to[n] = uint4{0, 0, 0, 0};
  }
  // Adds a register tile times a factor. It lies at multiples of 16 and may reach past the end.
  template <class F>
  CF_DEVICE void add(const F& tile, int query, int column, float factor, int seq_q,
                     int lane) const {
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r)
#pragma unroll
      for (int c = 0; c < F::kColumnBlocks; ++c)
        if (holds(query + 16 * r, seq_q) && holds(column + 16 * c, width))
#pragma unroll
          for (int v = 0; v < F::Mma::kValues; v += 4) {
            const float* x = tile.x[r][c] + v;
            add_to_memory(at<F>(query, column, r, c, v, lane),
                          {x[0] * factor, x[1] * factor, x[2] * factor, x[3] * factor});
          }
  }
  // The register tile at this place, which is all there.
  template <class F>
  CF_DEVICE void read(F& tile, int query, int column, int lane) const {
#pragma unroll
    for (int r = 0; r < F::kRowBlocks; ++r)
#pragma unroll
      for (int c = 0; c < F::kColumnBlocks; ++c)
#pragma unroll
        for (int v = 0; v < F::Mma::kValues; v += 4) {
          const auto x = *reinterpret_cast<const float4*>(at<F>(query, column, r, c, v, lane));
          tile.x[r][c][v] = x.x;
          tile.x[r][c][v + 1] = x.y;
          tile.x[r][c][v + 2] = x.z;
          tile.x[r][c][v + 3] = x.w;
        }
  }

 private:
  template <class F>
  CF_DEVICE float* at(int query, int column, int r, int c, int v, int lane) const {
    const std::int64_t start = static_cast<std::int64_t>(query) * width + column * 16;
    return data + start + r * 16 * width + c * 256 + v * F::Mma::kWave + lane * 4;
  }
};

}  // namespace crossflash::hip
