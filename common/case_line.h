// SPDX-License-Identifier: MIT
// case_line.h: one problem as one line of text, both ways: what tests list, what a failure prints,
// what bench times and what a user pastes back. Words of the form key=value in any order:
//
//   batch=2 seq=33x65 heads=8/2 d=64 dv=32 type=f16 causal=bottom-right window=16,0 dropout=0.1
//
// Words: batch, seq=QxK or seq=N, heads=Q/KV or heads=N, d, dv (default: d), type=f32|f16|bf16,
// scale, causal=top-left|bottom-right, window=LEFT,RIGHT (-1 open), dropout, seed, offset, data
// (seed of the tensors), layout=bshd|bhsd|packed|padded, fill=normal|large|ties|tiny,
// passes=forward|backward|both, without a value deterministic, and for options that the library may
// refuse: softcap=X, and without a value alibi, sink, bias, packed. A word that is left out has its
// default; `format_case` writes only those that differ from it.
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
  packed_qkv,  // q, k, v are views of one [batch, seq, heads_q + 2 heads_kv, max(d, d_v)], and so
               // are their gradients; needs seq_q = seq_k
  padded,      // rows, heads and batches with gaps of odd sizes between them
};

// What the tensors hold.
enum class Fill {
  normal,  // standard normal
  large,   // scores far past exp's range: needs the running maximum
  ties,    // few distinct values: many equal maxima
  tiny,    // denormals of the type
};

struct Case {
  crossflash_problem problem;  // strides zero; `layout` decides them
  Layout layout = Layout::bshd;
  Fill fill = Fill::normal;
  std::uint64_t seed = 0, offset = 0;  // dropout's
  std::uint64_t data_seed = 1;         // the random tensors'
};

// batch=1 seq=64 heads=1 d=64, both passes, everything else off.
Case default_case();
// A bad word is CROSSFLASH_INVALID in one sentence that names it. Whether the problem itself makes
// sense is not judged here, but by the library.
Status parse_case(std::string_view line, Case* out);
// The words of one line: parse_case gives the same case back, bit for bit.
std::string format_case(const Case& c);
// The line without its comment (from # on) and surrounding blanks; empty: no case stands there.
std::string_view case_text(std::string_view line);
// One case for each line of the text where one stands; an error names the line's number.
Status parse_cases(std::string_view text, std::vector<Case>* out);

}  // namespace crossflash
