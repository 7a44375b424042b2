// SPDX-License-Identifier: MIT
// gradient.glsl: what dK/dV and dQ share: P and dS of one element, recomputed from the raw score
// and the row's LSE (FlashAttention, Algorithm 4, lines 11 to 20).
#include "../../../common/shared/dropout.h"
#include "../../../common/shared/mask.h"
#include "../../../common/shared/score.h"
#include "../../../common/shared/softmax.h"
#include "option.glsl"

// 0 or 1/(1 - p) for an element, given its block of draws.
float dropout_factor(uvec4 block, uint j) {
  if (!asked(CF_DROPOUT)) return 1.0;
  return cf_dropout_keeps(RANDOM, block, j) ? problem.score.keep_scale : 0.0;
}

uvec4 dropout_block(uint bh, uint i, uint j) {
  if (!asked(CF_DROPOUT)) return uvec4(0, 0, 0, 0);
  return cf_dropout_block(RANDOM, bh, i, j / CF_DROPOUT_KEYS);
}

// d loss / d raw dot product, with p the element's probability, z its dropout factor, dp = do . v
// and D the row's dot. An element that is not seen (p = 0) has none, whatever dp holds.
float raw_gradient(float raw, float p, float z, float dp, float D) {
  return p == 0.0 ? 0.0 : p * (z * dp - D) * cf_score_gradient(problem.score, raw);
}

// d loss / d score, which is the bias' too.
float score_gradient(float p, float z, float dp, float D) {
  return p == 0.0 ? 0.0 : p * (z * dp - D);
}
