// SPDX-License-Identifier: MIT
// backward_bias.h: the gradient of the bias: dS, summed over all elements that share one of the
// bias. A block owns a tile of the gradient and walks over the batches and heads that share it; of
// an axis that is shared itself the block has the whole, tile by tile. It computes S and dP once
// more, for any head size (wide.h), and writes every element once: each sum has one order.
#pragma once

#include "hip/kernels/backward_score.h"
#include "hip/kernels/wide.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct GradBiasConfig {
  using T = T_;
  using Mma = typename Arch::template Mma<T>;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr int kWaves = 4;
  static constexpr int kRows = 16 * kWaves;
  static constexpr int kColumns = sizeof(T) == 4 ? 32 : 64;
  static constexpr int kDepth = 64;  // columns of a head that are summed at a time
  static constexpr int kThreads = kWaves * Mma::kWave;
  static constexpr int kRowBlocks = 1;  // of a wave
  static constexpr int kMinBlocks = Mma::kWave == 32 ? 2 : 1;
  using RowTile = SharedTile<T, kRows, kDepth>;
  using ColumnTile = SharedTile<T, kColumns, kDepth>;
  using SumTile = SharedTile<float, kRows, kColumns>;  // takes the place of all others in the end
  static constexpr int kLoopBytes = 2 * (RowTile::kBytes + ColumnTile::kBytes);
  static constexpr int kSharedBytes = kLoopBytes > SumTile::kBytes ? kLoopBytes : SumTile::kBytes;
  static_assert(kGeneral && kSharedBytes <= Arch::kSharedBytes);
};

// Blocks are counted keys first, then queries, heads, batches, as far as the gradient has them.
struct BiasItem {
  // Half-open ranges: all there are of what is shared; else one, or a tile's rows and columns.
  int batch, batch_end, head, head_end, query, query_end, key, key_end;

  CF_DEVICE BiasItem(const KernelArguments& a, int rows, int columns) {
    const KernelScores& to = a.options.grad_bias;
    unsigned left = blockIdx.x;
    const auto range = [&](std::int64_t stride, int count, int step, int& begin, int& end) {
      const auto steps = static_cast<unsigned>((count + step - 1) / step);
      begin = stride != 0 ? static_cast<int>(left % steps) * step : 0;
      end = stride != 0 ? begin + step : count;
      if (stride != 0) left /= steps;
    };
    range(to.seq_k, a.visibility.seq_k, columns, key, key_end);
    range(to.seq_q, a.seq_q, rows, query, query_end);
    range(to.head, a.heads_q, 1, head, head_end);
    range(to.batch, a.batch, 1, batch, batch_end);
  }
};

// Sums of a tile's rows if keys share the gradient, in column 0, and then of its columns if queries
// do, in row 0.
template <class C>
CF_DEVICE void sum_shared(typename C::SumTile tile, const KernelScores& to) {
  const int thread = static_cast<int>(threadIdx.x);
  if (to.seq_k == 0) {
    for (int r = thread; r < C::kRows; r += C::kThreads) {
      float sum = 0.0f;
      for (int c = 0; c < C::kColumns; ++c) sum += *tile.at(r, c);
      *tile.at(r, 0) = sum;
    }
    __syncthreads();
  }
  if (to.seq_q == 0) {
    for (int c = thread; c < C::kColumns; c += C::kThreads) {
      float sum = 0.0f;
      for (int r = 0; r < C::kRows; ++r) sum += *tile.at(r, c);
      *tile.at(0, c) = sum;
    }
    __syncthreads();
  }
}

// The block's part of the gradient = the sums, in the bias' type.
template <class C>
CF_DEVICE void write_bias_gradient(typename C::SumTile tile, const KernelArguments& a,
                                   const BiasItem& item) {
  using T = typename C::T;
  const KernelScores& to = a.options.grad_bias;
  const int rows = to.seq_q == 0 ? 1 : C::kRows;
  const int columns = to.seq_k == 0 ? 1 : C::kColumns;
  const std::int64_t start =
      item.batch * to.batch + item.head * to.head + item.query * to.seq_q + item.key * to.seq_k;
  for (int n = static_cast<int>(threadIdx.x); n < rows * columns; n += C::kThreads) {
    const int r = n / columns;
    const int c = n % columns;
    if (item.query + r >= a.seq_q || item.key + c >= a.visibility.seq_k) continue;
    const std::int64_t at = start + r * to.seq_q + c * to.seq_k;
    if (a.options.bias_dtype == shared::CF_F32)
      static_cast<float*>(to.data)[at] = *tile.at(r, c);
    else
      store_run<1>(static_cast<T*>(to.data) + at, tile.at(r, c));
  }
}

// The walk of a block over the elements that share its tile.
template <class C>
struct BiasWalk {
  using T = typename C::T;
  using Mma = typename C::Mma;
  const KernelArguments& a;
  DeepProduct<C> product;
  Fragment<Mma, 1, C::kColumns / 16> sum;  // of dS

  CF_DEVICE BiasWalk(const KernelArguments& arguments, SharedSpace& space)
      : a(arguments), product(space) {
    sum.clear();
  }

  // Adds dS of queries [i0, ...) and keys [j0, ...).
  CF_DEVICE void add_tile(int batch, int head, int i0, int j0) {
    const auto queries_of = [&](const KernelTensor& t, int width) {
      const auto own = sequence_of<C>(a, batch);
      return HeadTile<T>(t, own.batch_q(batch), head, width, i0, own.seq_q(), own.first_q());
    };
    const auto keys_of = [&](const KernelTensor& t, int width) {
      const auto own = sequence_of<C>(a, batch);
      return HeadTile<T>(t, own.batch_k(batch), head / a.group, width, j0, own.seq_k(),
                         own.first_k());
    };
    Fragment<Mma, 1, C::kColumns / 16> s, ds;
    s.clear();
    ds.clear();
    product.start(queries_of(a.q, a.d), keys_of(a.k, a.d));
    product.add(s, queries_of(a.q, a.d), keys_of(a.k, a.d));  // S = Q K^T
    product.start(queries_of(a.grad_o, a.d_v), keys_of(a.v, a.d_v));
    product.add(ds, queries_of(a.grad_o, a.d_v), keys_of(a.v, a.d_v));  // dP = dO V^T

    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = thread / Mma::kWave * 16;
    const Place<Mma, true> place{i0 + wave_row, j0, lane};
    const bool full = tile_full<C>(a, batch, i0, i0 + C::kRows, j0, j0 + C::kColumns);
    hide_scores<C>(s, place, full, a, batch, head);
    if ((a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(ds, place, a, static_cast<shared::uint>(batch * a.heads_q + head),
                    [](int, int, int, float& x, float z) { x = kept_gradient<C::kGeneral>(x, z); });

    RowValues<Mma, 1> base, D, mend;
    const auto sequence = sequence_of<C>(a, batch);
    const int seq_q = sequence.seq_q();
    base.for_each([&](int r, int slot, float& x) {
      const int i = i0 + wave_row + slot_row<Mma>(r, slot, lane);
      const auto value_of = [&](const KernelRows& t) {
        return head_values(t, sequence.batch_q(batch), head, sequence.first_q())[i * t.seq];
      };
      x = backward_base(i < seq_q ? value_of(a.lse) : shared::cf_neg_inf());
      D.x[r][slot] = i < seq_q ? value_of(a.delta) : 0.0f;
      mend.x[r][slot] = i < seq_q && a.mend.data != nullptr ? value_of(a.mend) : 1.0f;
    });
    const float unit = score_unit<C::kGeneral>(a.score);
    with_terms<C>(a, batch, head, [&](auto term) {
      ds.for_each([&](int r, int c, int v, float& x) {
        const int slot = Mma::slot(v);
        float slope;  // a bias is added to what has it
        const float p = probability<C::kGeneral>(a.score, s.x[r][c][v], term(place, r, c, v), unit,
                                                 base.x[r][slot], slope);
        sum.x[r][c][v] += p * mend.x[r][slot] * (x - D.x[r][slot]);
      });
    });
  }
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    grad_bias_kernel(const KernelArguments a) {
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  BiasWalk<C> walk(a, space);
  const BiasItem item(a, C::kRows, C::kColumns);
  for (int batch = item.batch; batch < item.batch_end; ++batch) {
    const Sequence<true> sequence(a, batch);
    const shared::cf_visibility& visibility = sequence.visibility();
    const int query_end = item.query_end < sequence.seq_q() ? item.query_end : sequence.seq_q();
    for (int head = item.head; head < item.head_end; ++head)
      for (int i0 = item.query; i0 < query_end; i0 += C::kRows) {
        const int i1 = i0 + C::kRows < query_end ? i0 + C::kRows : query_end;
        const int begin = shared::cf_keys_begin(visibility, i0) / C::kColumns * C::kColumns;
        const int end = shared::cf_keys_end(visibility, i1);
        for (int j0 = begin > item.key ? begin : item.key; j0 < end && j0 < item.key_end;
             j0 += C::kColumns)
          if (tile_seen<C, C::kRows, C::kColumns>(a, batch, head, i0, j0))
            walk.add_tile(batch, head, i0, j0);
      }
  }
  copy_wait<0>();
  __syncthreads();

  const typename C::SumTile tile{reinterpret_cast<float*>(shared_memory)};
  const int lane = static_cast<int>(threadIdx.x) % C::Mma::kWave;
  store_fragment(walk.sum, tile, static_cast<int>(threadIdx.x) / C::Mma::kWave * 16, 0, lane);
  __syncthreads();
  sum_shared<C>(tile, a.options.grad_bias);
  write_bias_gradient<C>(tile, a, item);
}

struct backward_bias {
  static constexpr const char* kName = "grad_bias";
  static constexpr KernelPass kPass = KernelPass::grad_bias;
  static constexpr bool kEverySize = true;  // one kernel for all head sizes
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = GradBiasConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &grad_bias_kernel<C>;
  }
};

}  // namespace crossflash::hip
