// SPDX-License-Identifier: MIT
// score.inl.h: every score modifier with its derivative beside it; included once for each CF_REAL.
// The order is the contract's: scale, softcap, bias, ALiBi. mask.h comes after.

// Scale and softcap of a raw dot product.
CF_FN CF_REAL cf_score_value(cf_score p, CF_REAL raw) {
  const CF_REAL s = CF_REAL(p.scale) * raw;
  if ((p.features & CF_SOFTCAP) == 0u) return s;
  return CF_REAL(p.softcap) * cf_tanh(s / CF_REAL(p.softcap));
}

// d(score) / d(raw) at the same raw dot product. Bias and ALiBi are added, so it is theirs too.
CF_FN CF_REAL cf_score_gradient(cf_score p, CF_REAL raw) {
  if ((p.features & CF_SOFTCAP) == 0u) return CF_REAL(p.scale);
  const CF_REAL t = cf_tanh(CF_REAL(p.scale) * raw / CF_REAL(p.softcap));
  return CF_REAL(p.scale) * (CF_REAL(1) - t * t);
}

// What ALiBi adds for a query that stands `distance` keys after the key, or before it.
CF_FN CF_REAL cf_alibi(CF_REAL slope, int distance) {
  return -slope * CF_REAL(distance < 0 ? -distance : distance);
}
