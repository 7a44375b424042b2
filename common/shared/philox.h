// SPDX-License-Identifier: MIT
// philox.h: Philox 4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3" (SC'11). No state: the draw is a function of counter and key.
#ifndef CROSSFLASH_SHARED_PHILOX_H
#define CROSSFLASH_SHARED_PHILOX_H
#include "lang.h"
CF_BEGIN

CF_FN uvec4 cf_philox(uvec4 counter, uint key0, uint key1) {
  uvec4 c = counter;
  uint k0 = key0;
  uint k1 = key1;
  for (int r = 0; r < 10; ++r) {
    uint hi0, lo0, hi1, lo1;
    cf_mulhilo(0xD2511F53u, c.x, hi0, lo0);
    cf_mulhilo(0xCD9E8D57u, c.z, hi1, lo1);
    c = uvec4(hi1 ^ c.y ^ k0, lo1, hi0 ^ c.w ^ k1, lo0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

CF_END
#endif
