// SPDX-License-Identifier: MIT
// forward_wide.h: forward for head sizes whose tiles fit nowhere whole (wide.h). A block owns a
// tile of queries and a slice of V's columns; what it does with them is forward.h's, for any score.
#pragma once

#include "hip/kernels/forward.h"
#include "hip/kernels/wide.h"

namespace crossflash::hip {

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    forward_wide_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  DeepProduct<C> product(space);
  const auto v_tile = space.take<typename C::ValueTile>();  // (Bc, slice)
  const typename C::OutputTile o_tile{reinterpret_cast<T*>(shared_memory)};

  const SliceItem part(KernelPass::forward, C::kSlice, a);
  const QueryItem item(a, C::kRows, part.block);
  const int x0 = part.slice * C::kSlice;
  const int i0 = item.first;
  const int i1 = i0 + C::kRows < a.seq_q ? i0 + C::kRows : a.seq_q;
  const int seq_k = a.visibility.seq_k;
  using Tile = HeadTile<T>;
  const auto q = [&] { return Tile(a.q, item.batch, item.head, a.d, i0, a.seq_q); };
  const auto k = [&](int j0) { return Tile(a.k, item.batch, item.head_kv, a.d, j0, seq_k); };
  const auto v = [&](int j0) { return Tile(a.v, item.batch, item.head_kv, a.d_v, j0, seq_k); };
  const float unit = score_unit<C::kGeneral>(a.score);

  const int key_begin = shared::cf_keys_begin(a.visibility, i0) / C::kColumns * C::kColumns;
  const int key_end = shared::cf_keys_end(a.visibility, i1);
  if (key_begin < key_end) product.start(q(), k(key_begin));

  OnlineSoftmax<C, C::kSlice> state;
#pragma unroll 1
  for (int j0 = key_begin; j0 < key_end; j0 += C::kColumns) {
    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s;
    s.clear();
    product.add(s, q(), k(j0));  // S = Q K^T
    copy_in<C::kThreads>(v_tile, from_column(v(j0).rows, x0), j0, seq_k);
    copy_commit();

    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = thread / Mma::kWave * C::kRowBlocks * 16;
    const Place<Mma, true> place{i0 + wave_row, j0, lane};
    s.for_each([&](int, int, int, float& x) { x = shared::cf_score_value(a.score, x); });
    if (!shared::cf_tile_full(a.visibility, i0, i1, j0, j0 + C::kColumns))
      mask_scores(s, place, a.visibility, a.seq_q);
    state.add_scores(s, unit);
    if ((a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(s, place, a, item.flat(a), [](int, int, int, float& p, float z) { p *= z; });

    copy_wait<0>();
    __syncthreads();  // V is there
    if (j0 + C::kColumns < key_end) product.start(q(), k(j0 + C::kColumns));
    add_weighted(state.o, s, v_tile, 0, 0, lane);  // O += P V
  }
  __syncthreads();

  state.finish(unit);
  const int lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int wave_row = static_cast<int>(threadIdx.x) / Mma::kWave * C::kRowBlocks * 16;
  float* lse = head_values(a.lse, item.batch, item.head);
  if (part.slice == 0)
    state.m.for_each([&](int r, int slot, float& x) {
      const int i = i0 + wave_row + slot_row<Mma>(r, slot, lane);
      if (i < a.seq_q && Mma::column(lane, 0) == 0) lse[i * a.lse.seq] = x;
    });
  store_sum(state.o, o_tile, wave_row, 0, lane);
  __syncthreads();
  const auto o = head_rows<T>(a.o, item.batch, item.head, a.d_v);
  copy_out<C::kThreads>(o_tile, from_column(o, x0), i0, a.seq_q);
}

struct forward_wide {
  static constexpr const char* kName = "forward_wide";
  static constexpr KernelPass kPass = KernelPass::forward;
  static constexpr bool kEverySize = true;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = WideConfig<Arch, T, kHead, kGeneral, true>;
  template <class C>
  static auto kernel() {
    return &forward_wide_kernel<C>;
  }
};

}  // namespace crossflash::hip
