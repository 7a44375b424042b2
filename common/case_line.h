// SPDX-License-Identifier: MIT
// case_line.h: one problem as one line of text, both ways: what tests list, what a failure prints,
// what bench times and what a user pastes back. Words of the form key=value in any order:
//
//   batch=2 seq=33x65 heads=8/2 d=64 dv=32 type=f16 causal=bottom-right window=16,0 dropout=0.1
//
// A word that is left out has its default; `format_case` writes only those that differ from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace crossflash {

// How the tensors lie in memory.
enum class Layout {
  bshd,        // contiguous [batch, seq, heads, d]
  bhsd,        // contiguous [batch, heads, seq, d]
  packed_qkv,  // q, k, v are views of one [batch, seq, heads_q + 2 heads_kv, max(d, d_v)]
  padded,      // rows, heads and batches with gaps of odd sizes between them
};

// What the tensors hold.
enum class Fill {
  normal,   // standard normal
  large,    // scores far past exp's range: needs the running maximum
  ties,     // few distinct values: many equal maxima
  tiny,     // denormals of the type
};

struct Case {
  crossflash_problem problem;  // strides zero; `layout` decides them
  Layout layout = Layout::bshd;
  Fill fill = Fill::normal;
  std::uint64_t seed = 0, offset = 0;   // dropout's
  std::uint64_t data_seed = 1;          // the random tensors'
};

Case default_case();
Status parse_case(std::string_view line, Case* out);
std::string format_case(const Case& c);
// One case for each line of the text that is neither empty nor a comment (#).
Status parse_cases(std::string_view text, std::vector<Case>* out);

}  // namespace crossflash
