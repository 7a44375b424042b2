// SPDX-License-Identifier: MIT
// score.inl.h: every score modifier with its derivative beside it; included once for each CF_REAL.
// The order is the contract's: scale, then softcap, bias, ALiBi when they come. mask.h comes after.

CF_FN CF_REAL cf_score_value(cf_score p, CF_REAL raw) { return CF_REAL(p.scale) * raw; }

// d(score) / d(raw) at the same raw dot product.
CF_FN CF_REAL cf_score_gradient(cf_score p, CF_REAL /*raw*/) { return CF_REAL(p.scale); }
