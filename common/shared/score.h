// SPDX-License-Identifier: MIT
// score.h: score.inl.h in every precision the language has: cf_score_value(float), and in C++ the
// double that the reference computes with.
#ifndef CROSSFLASH_SHARED_SCORE_H
#define CROSSFLASH_SHARED_SCORE_H
#include "abi.h"
CF_BEGIN
#define CF_REAL float
#include "score.inl.h"
#undef CF_REAL
#ifndef CF_GLSL
#define CF_REAL double
#include "score.inl.h"
#undef CF_REAL
#endif
CF_END
#endif
