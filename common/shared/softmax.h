// SPDX-License-Identifier: MIT
// softmax.h: the state of the online softmax, (m, l, o) with o = sum exp(s - m) v, and its combine
// operator, (m, l, o) + (m', l', o') = (M, l a + l' a', o a + o' a') with M = max(m, m') and
// a = exp(m - M) (Milakov and Gimelshein 2018; FlashAttention, Algorithm 1, lines 10 to 13). It is
// associative and commutative: tiles, lanes, chunks of a dispatch and split keys all use it.
// The empty state is (-inf, 0, 0), with a real -inf; exp(-inf - -inf) is never formed.
#ifndef CROSSFLASH_SHARED_SOFTMAX_H
#define CROSSFLASH_SHARED_SOFTMAX_H
#include "lang.h"
CF_BEGIN

CF_CONST float CF_LOG2E = 1.4426950408889634f;
CF_CONST float CF_LN2 = 0.6931471805599453f;

CF_FN float cf_exp(float x) { return cf_exp2(x * CF_LOG2E); }

// exp(s - m) for a score s of a state with maximum m >= s.
CF_FN float cf_weight(float s, float m) { return cf_is_neg_inf(s) ? 0.0f : cf_exp(s - m); }

// The factor a of a state whose maximum rises from m to the combined maximum.
CF_FN float cf_rescale(float m, float combined) { return cf_weight(m, combined); }

CF_FN float cf_combine_max(float m0, float m1) { return m0 > m1 ? m0 : m1; }

// lse = m + log(l); of an empty state -inf.
CF_FN float cf_lse(float m, float l) { return l > 0.0f ? m + cf_log2(l) * CF_LN2 : cf_neg_inf(); }

// 1/l, by which o is normalised; of an empty state 0, so that o is 0.
CF_FN float cf_inverse_sum(float l) { return l > 0.0f ? 1.0f / l : 0.0f; }

// Backward's p = exp(s - lse); 0 in a row that saw no key.
CF_FN float cf_probability(float s, float lse) {
  return cf_is_neg_inf(lse) ? 0.0f : cf_weight(s, lse);
}

// lse is one f32: all p of a row are off by a common factor of up to half an ulp of lse, much where
// scores are in the thousands. The factor that mends them, given their sum (to better than f32's
// naive sum): 1/sum if that is 1 but for this error, hence the row complete; 1 if the keys at hand
// are but a part of those that lse was taken over. It never moves p by more than lse is uncertain.
CF_FN float cf_mend_row(float sum, float lse) {
  const float excess = sum > 1.0f ? sum - 1.0f : 1.0f - sum;
  const float uncertainty = (lse < 0.0f ? -lse : lse) * 2.384185791015625e-07f;  // 2^-22
  return excess <= uncertainty && excess < 0.5f ? 1.0f / sum : 1.0f;
}

CF_END
#endif
