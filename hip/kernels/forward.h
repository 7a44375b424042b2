// SPDX-License-Identifier: MIT
// forward.h: FlashAttention-2's forward. A block owns a tile of queries and walks over the keys
// they see with the online softmax (FlashAttention, Algorithm 2); a wave owns rows of the tile, so
// that nothing but K and V is shared. O, m and l stay in registers. While S = Q K^T of a tile is
// computed its V is on the way, and while O += P V is, the next K.
#pragma once

#include "hip/kernels/item.h"
#include "hip/kernels/score.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct ForwardConfig {
  using T = T_;
  using Mma = typename Arch::template Mma<T>;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr auto kTile = Arch::forward_tile(static_cast<int>(sizeof(T)), kHead, kGeneral);
  static constexpr int kRows = kTile.rows;        // Br
  static constexpr int kColumns = kTile.columns;  // Bc
  static constexpr int kThreads = kTile.waves * Mma::kWave;
  static constexpr int kMinBlocks = kTile.blocks;
  static constexpr int kRowBlocks = kRows / (16 * kTile.waves);  // of a wave
  using QueryTile = SharedTile<T, kRows, kHead>;
  using KeyTile = SharedTile<T, kColumns, kHead>;
  static constexpr int kSharedBytes = QueryTile::kBytes + 2 * KeyTile::kBytes;
  static_assert(kRowBlocks * 16 * kTile.waves == kRows && kColumns % 16 == 0);
  static_assert(kSharedBytes <= Arch::kSharedBytes);
};

// The state (m, l, o) of a wave's rows. m is in the unit of the scores, l this lane's share.
template <class C, int kWidth = C::kHead>
struct OnlineSoftmax {
  using Mma = typename C::Mma;
  RowValues<Mma, C::kRowBlocks> m, l;
  Fragment<Mma, C::kRowBlocks, kWidth / 16> o;

  CF_DEVICE OnlineSoftmax() {
    m.fill(shared::cf_neg_inf());
    l.fill(0.0f);
    o.clear();
  }

  // exp(x - m) for a score x. f32 takes the difference first, so that the weight of a row's largest
  // score is exactly 1; else one fused operation does, the rounding of the product m * unit apart,
  // which is one factor for the whole row. `base` is what base_of makes of m.
  static constexpr bool kDifferenceFirst = sizeof(typename C::T) == sizeof(float);
  static CF_DEVICE float base_of(float m, float unit) {
    // A row that has seen no key yet: any finite base keeps its weights exp2(-inf) = 0.
    if (shared::cf_is_neg_inf(m)) return 0.0f;
    return kDifferenceFirst ? m : m * unit;
  }
  static CF_DEVICE float weight(float x, float base, float unit) {
    return exp2_fast(kDifferenceFirst ? (x - base) * unit : x * unit - base);
  }

  // Takes a tile's scores into m and l and brings o to the new m; leaves P in their place. A row
  // block after the other, so that few temporaries live at a time.
  template <class F>
  CF_DEVICE void add_scores(F& s, float unit) {
#pragma unroll
    for (int r = 0; r < C::kRowBlocks; ++r) {
      float top[Mma::kSlots], rescale[Mma::kSlots];
#pragma unroll
      for (int n = 0; n < Mma::kSlots; ++n) top[n] = m.x[r][n];
      s.for_each_in(
          r, [&](int, int v, float& x) { top[Mma::slot(v)] = max_of(top[Mma::slot(v)], x); });
      bool rises = false;
#pragma unroll
      for (int n = 0; n < Mma::kSlots; ++n) {
        const float before = kDifferenceFirst ? m.x[r][n] : m.x[r][n] * unit;
        m.x[r][n] = Mma::row_max(top[n]);
        top[n] = base_of(m.x[r][n], unit);
        rescale[n] = kDifferenceFirst ? weight(before, top[n], unit) : exp2_fast(before - top[n]);
        rises = rises || rescale[n] != 1.0f;
        l.x[r][n] *= rescale[n];
      }
      if (any_lane(rises))
        o.for_each_in(r, [&](int, int v, float& x) { x *= rescale[Mma::slot(v)]; });
      s.for_each_in(r, [&](int, int v, float& x) {
        x = weight(x, top[Mma::slot(v)], unit);
        l.x[r][Mma::slot(v)] += x;
      });
    }
  }

  // o is normalised, m becomes the rows' LSE.
  CF_DEVICE void finish(float unit) {
    l.for_each([&](int r, int slot, float& sum) {
      sum = Mma::row_sum(sum);
      float& at = m.x[r][slot];
      at = shared::cf_lse(at * unit * shared::CF_LN2, sum);
      sum = shared::cf_inverse_sum(sum);
    });
    o.for_each([&](int r, int, int v, float& x) { x *= l.x[r][Mma::slot(v)]; });
  }
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kMinBlocks)
    forward_kernel(const KernelArguments a) {
  using Mma = typename C::Mma;
  using T = typename C::T;
  extern __shared__ __align__(128) char shared_memory[];
  SharedSpace space{shared_memory};
  const auto q_tile = space.take<typename C::QueryTile>();  // (Br, D), in the end O
  const auto k_tile = space.take<typename C::KeyTile>();    // (Bc, D)
  const auto v_tile = space.take<typename C::KeyTile>();    // (Bc, D)

  const QueryItem item(a, C::kRows);
  const int i0 = item.first;
  const int i1 = i0 + C::kRows < a.seq_q ? i0 + C::kRows : a.seq_q;
  const int seq_k = a.visibility.seq_k;
  const auto q = head_rows<T>(a.q, item.batch, item.head, a.d);
  const auto k = head_rows<T>(a.k, item.batch, item.head_kv, a.d);
  const auto v = head_rows<T>(a.v, item.batch, item.head_kv, a.d_v);
  const int own_lane = static_cast<int>(threadIdx.x) % Mma::kWave;
  const int own_row = static_cast<int>(threadIdx.x) / Mma::kWave * C::kRowBlocks * 16;
  const float unit = score_unit<C::kGeneral>(a.score);

  const int key_begin = shared::cf_keys_begin(a.visibility, i0) / C::kColumns * C::kColumns;
  const int key_end = shared::cf_keys_end(a.visibility, i1);
  copy_in<C::kThreads>(q_tile, q, i0, a.seq_q);
  copy_in<C::kThreads>(k_tile, k, key_begin, seq_k);
  copy_commit();

  OnlineSoftmax<C> state;
#pragma unroll 1
  for (int j0 = key_begin; j0 < key_end; j0 += C::kColumns) {
    const int thread = fresh(static_cast<int>(threadIdx.x));
    const int lane = thread % Mma::kWave;
    const int wave_row = thread / Mma::kWave * C::kRowBlocks * 16;
    copy_wait<0>();
    __syncthreads();  // K is there, and V's tile no longer in use
    copy_in<C::kThreads>(v_tile, v, j0, seq_k);
    copy_commit();
    Fragment<Mma, C::kRowBlocks, C::kColumns / 16> s;
    s.clear();
    add_product(s, q_tile, wave_row, k_tile, 0, lane);  // S = Q K^T
    copy_wait<0>();
    __syncthreads();  // V is there, and K's tile no longer in use
    if (j0 + C::kColumns < key_end) copy_in<C::kThreads>(k_tile, k, j0 + C::kColumns, seq_k);
    copy_commit();

    const Place<Mma, true> place{i0 + wave_row, j0, lane};
    if constexpr (C::kGeneral)
      s.for_each([&](int, int, int, float& x) { x = shared::cf_score_value(a.score, x); });
    if (!shared::cf_tile_full(a.visibility, i0, i1, j0, j0 + C::kColumns))
      mask_scores(s, place, a.visibility, a.seq_q);
    state.add_scores(s, unit);
    if (C::kGeneral && (a.score.features & shared::CF_DROPOUT) != 0)
      for_each_kept(s, place, a, item.flat(a), [](int, int, int, float& p, float z) { p *= z; });
    add_weighted(state.o, s, v_tile, 0, 0, lane);  // O += P V
  }
  copy_wait<0>();
  __syncthreads();

  state.finish(unit);
  float* lse = head_values(a.lse, item.batch, item.head);
  state.m.for_each([&](int r, int slot, float& x) {
    const int i = i0 + own_row + slot_row<Mma>(r, slot, own_lane);
    if (i < a.seq_q && Mma::column(own_lane, 0) == 0) lse[i * a.lse.seq] = x;
  });
  store_sum(state.o, q_tile, own_row, 0, own_lane);
  __syncthreads();
  copy_out<C::kThreads>(q_tile, head_rows<T>(a.o, item.batch, item.head, a.d_v), i0, a.seq_q);
}

struct forward {
  static constexpr const char* kName = "forward";
  static constexpr KernelPass kPass = KernelPass::forward;
  static constexpr bool kEverySize = false;
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = ForwardConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &forward_kernel<C>;
  }
};

}  // namespace crossflash::hip
