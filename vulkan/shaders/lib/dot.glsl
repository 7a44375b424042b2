// SPDX-License-Identifier: MIT
// dot.glsl: one order for every dot product over a head size: four elements by themselves, then the
// sum of the fours. It rounds half as much as one long chain, and S is the same to the bit in
// forward and backward, however wide the slices of their tiles.
float dot4(vec4 a, vec4 b) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, a.x * b.x))); }
