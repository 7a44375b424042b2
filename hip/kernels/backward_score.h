// SPDX-License-Identifier: MIT
// backward_score.h: what the kernels of backward ask of options. In special kernels, which take
// none, nothing of it is left.
#pragma once

#include "hip/kernels/item.h"
#include "hip/kernels/score.h"

namespace crossflash::hip {

// A block's sequence, made anew wherever it is used: held over a loop it costs more registers than
// there are.
template <class C>
CF_DEVICE Sequence<C::kGeneral> sequence_of(const KernelArguments& a, int batch) {
  if constexpr (C::kGeneral)
    return Sequence<true>(a, fresh_uniform(batch));
  else
    return Sequence<false>(a, batch);
}

// cf_tile_full of general kernels.
template <class C>
CF_DEVICE bool tile_full(const KernelArguments& a, int batch, int i0, int i1, int j0, int j1) {
  return shared::cf_tile_full(sequence_of<C>(a, batch).visibility(), i0, i1, j0, j1);
}

// What options say of a head's scores, likewise.
template <class C>
CF_DEVICE ScoreOptions<typename C::T> options_of(const KernelArguments& a, int batch, int head) {
  return ScoreOptions<typename C::T>(a, fresh_uniform(batch), fresh_uniform(head),
                                     sequence_of<C>(a, batch));
}

// Scores that are not visible, or that the mask hides, = -inf. `full`: every query of the tile sees
// all of its keys, but for the mask.
template <class C, class F, class P>
CF_DEVICE void hide_scores(F& s, const P& place, bool full, const KernelArguments& a, int batch,
                           int head) {
  const auto sequence = sequence_of<C>(a, batch);
  if (!full) mask_scores(s, place, sequence.visibility(), sequence.seq_q());
  if constexpr (C::kGeneral) ScoreOptions<typename C::T>(a, batch, head, sequence).mask(s, place);
}

// body(term), see ScoreOptions::with_terms.
template <class C, class Body>
CF_DEVICE void with_terms(const KernelArguments& a, int batch, int head, Body body) {
  if constexpr (C::kGeneral)
    options_of<C>(a, batch, head).with_terms(body);
  else
    body([](const auto&, int, int, int) { return 0.0f; });
}

// Whether the mask leaves anything of kRows queries from i0 and kColumns keys from j0.
template <class C, int kRows, int kColumns>
CF_DEVICE bool tile_seen(const KernelArguments& a, int batch, int head, int i0, int j0) {
  if constexpr (C::kGeneral)
    return options_of<C>(a, batch, head)
        .template sees<C::Mma::kWave, kRows, kColumns>(
            j0, [=](int row) { return i0 + row; }, [=](int) { return head; });
  return true;
}

// The sink's part of a row's sum of P.
CF_DEVICE float sink_weight(const KernelArguments& a, int head, float lse) {
  return (a.score.features & shared::CF_SINK) != 0 ? shared::cf_weight(a.options.sink[head], lse)
                                                   : 0.0f;
}

}  // namespace crossflash::hip
