// SPDX-License-Identifier: MIT
// dropout.h: which elements dropout drops. The bit of (batch, query head, i, j) depends on seed,
// offset and those coordinates alone, so that every backend, tile and split drops the same
// elements and backward regenerates them. Eight neighbouring keys of one query share a Philox
// block, sixteen bits each: key j uses half (j & 1) of word (j / 2) % 4 of counter
// (j / 8, i, batch * heads_q + h, offset) under key (seed_lo, seed_hi).
#ifndef CROSSFLASH_SHARED_DROPOUT_H
#define CROSSFLASH_SHARED_DROPOUT_H
#include "abi.h"
#include "philox.h"
CF_BEGIN

CF_CONST uint CF_DROPOUT_KEYS = 8u;  // keys that share a block

// The block of draws for query i of flat head bh and keys [8 * block, 8 * block + 8).
CF_FN uvec4 cf_dropout_block(cf_dropout p, uint bh, uint i, uint block) {
  return cf_philox(uvec4(block, i, bh, p.offset), p.seed_lo, p.seed_hi);
}

// Whether key j survives, given its block.
CF_FN bool cf_dropout_keeps(cf_dropout p, uvec4 block, uint j) {
  const uint pair = (j >> 1) & 3u;
  const uint word = pair == 0u ? block.x : (pair == 1u ? block.y : (pair == 2u ? block.z : block.w));
  return ((word >> ((j & 1u) * 16u)) & 0xffffu) >= p.threshold;
}

CF_FN bool cf_keep(cf_dropout p, uint bh, uint i, uint j) {
  return cf_dropout_keeps(p, cf_dropout_block(p, bh, i, j / CF_DROPOUT_KEYS), j);
}

CF_END
#endif
