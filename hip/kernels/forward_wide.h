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
  // Made where it is used, like HeadTile.
  const auto sequence_here = [&] { return Sequence<true>(a, fresh_uniform(item.batch)); };
  const Sequence<true> sequence = sequence_here();
  const int x0 = part.slice * C::kSlice;
  const int i0 = item.first;
  if (i0 >= sequence.written_q()) return;
  const int seq_q = sequence.seq_q();
  const int i1 = i0 + C::kRows < seq_q ? i0 + C::kRows : seq_q;
  const auto q = [&] {
    const Sequence<true> here = sequence_here();
    return HeadTile<T>(a.q, here.batch_q(item.batch), item.head, a.d, i0, here.seq_q(),
                       here.first_q());
  };
  const auto k = [&](int j0) {
    return KeyHeadTile<T>(a, a.k, sequence_here(), item.batch, item.head_kv, a.d, j0);
  };
  const auto v = [&](int j0) {
    return KeyHeadTile<T>(a, a.v, sequence_here(), item.batch, item.head_kv, a.d_v, j0);
  };
  const float unit = score_unit<C::kGeneral>(a.score);

  const int key_begin =
      shared::cf_keys_begin(sequence.visibility(), i0) / C::kColumns * C::kColumns;
  const int key_end = i0 < i1 ? shared::cf_keys_end(sequence.visibility(), i1) : 0;
  // The first tile from j0 on of which a mask leaves anything.
  const auto unmasked = [&](int j0) {
    const ScoreOptions<T> options(a, item.batch, item.head, sequence_here());
    while (j0 < key_end &&
           !options.template sees<Mma::kWave, C::kRows, C::kColumns>(
               j0, [&](int row) { return i0 + row; }, [&](int) { return item.head; }))
      j0 += C::kColumns;
    return j0;
  };
  const int start = unmasked(key_begin);
  if (start < key_end) product.start(q(), k(start));

  OnlineSoftmax<C, C::kSlice> state;
  if ((a.score.features & shared::CF_SINK) != 0)
    state.start(static_cast<int>(threadIdx.x) % Mma::kWave,
                [&](int) { return a.options.sink[item.head]; });
#pragma unroll 1
  for (int j0 = start, j1; j0 < key_end; j0 = j1) {
    j1 = unmasked(j0 + C::kColumns);
    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s;
    s.clear();
    product.add(s, q(), k(j0));  // S = Q K^T
    copy_columns<C::kThreads>(v_tile, v(j0), x0);
    copy_commit();

    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = thread / Mma::kWave * C::kRowBlocks * 16;
    const Place<Mma, true> place{i0 + wave_row, j0, lane};
    const Sequence<true> here = sequence_here();
    const ScoreOptions<T> options(a, item.batch, item.head, here);
    options.apply(s, place);
    if (!shared::cf_tile_full(here.visibility(), i0, i0 + C::kRows, j0, j0 + C::kColumns))
      mask_scores(s, place, here.visibility(), here.seq_q());
    if (options.has(shared::CF_MASK))
      ScoreOptions<T>(a, item.batch, item.head, sequence_here()).mask(s, place);
    state.add_scores(s, unit);
    if ((a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(s, place, a, item.flat(a), [](int, int, int, float& p, float z) { p *= z; });

    copy_wait<0>();
    __syncthreads();  // V is there
    if (j1 < key_end) product.start(q(), k(j1));
    add_weighted(state.o, s, v_tile, 0, 0, lane);  // O += P V
  }
  __syncthreads();

  state.finish(unit);
  const int lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int wave_row = static_cast<int>(threadIdx.x) / Mma::kWave * C::kRowBlocks * 16;
  const Sequence<true> last = sequence_here();
  state.clear_from(last.seq_q() - i0 - wave_row, lane);
  const int batch = last.batch_q(item.batch);
  const int written = last.written_q();
  float* lse = head_values(a.lse, batch, item.head, last.first_q());
  if (part.slice == 0)
    state.m.for_each([&](int r, int slot, float& x) {
      const int i = i0 + wave_row + slot_row<Mma>(r, slot, lane);
      if (i < written && Mma::column(lane, 0) == 0) lse[i * a.lse.seq] = x;
    });
  store_sum(state.o, o_tile, wave_row, 0, lane);
  __syncthreads();
  const auto o = head_rows<T>(a.o, batch, item.head, a.d_v, last.first_q());
  copy_out<C::kThreads>(o_tile, from_column(o, x0), i0, written);
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
