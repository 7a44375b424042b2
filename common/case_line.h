// SPDX-License-Identifier: MIT
// case_line.h: one problem as one line of text, both ways: what tests list, what a failure prints,
// what bench times and what a user pastes back. Words of the form key=value in any order:
//
//   batch=2 seq=33x65 heads=8/2 d=64 dv=32 type=f16 causal=bottom-right window=16,0 dropout=0.1
//
// Words: batch, seq=QxK or seq=N, heads=Q/KV or heads=N, d, dv (default: d), type=f32|f16|bf16,
// scale, causal=top-left|bottom-right, window=LEFT,RIGHT (-1 open), dropout, seed, offset, data
// (seed of the tensors), layout=bshd|bhsd|packed|padded, fill=normal|large|ties|tiny,
// passes=forward|backward|both, and without a value deterministic. The score's options: softcap=X,
// bias=AXES and mask=AXES (the letters of bhqk along which it varies, as in bias=hqk; a mask has
// k), bias-type=own|f32 (the tensors' or f32), and without a value alibi, sink, dbias, dsink (bias
// or sink with gradient). Where keys and queries lie: rows=QUERIES/KEYS or one word for both, of
// all|lengths|offsets, lens=33x64,0x16 (QUERIESxKEYS of each sequence; left out: drawn from data),
// row-bits=32|64, page=N (keys of a page). And device-seed: dropout's state is on the device.
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

// The axes along which a bias or a mask varies.
struct Axes {
  bool batch = true, head = true, seq_q = true, seq_k = true;

  bool all() const { return batch && head && seq_q && seq_k; }
};

// Rows of one sequence.
struct Lengths {
  std::int64_t q, k;
};

struct Case {
  // Strides, totals and pages are zero; `layout`, the axes and the lengths decide them.
  crossflash_problem problem;
  Layout layout = Layout::bshd;
  Fill fill = Fill::normal;
  std::uint64_t seed = 0, offset = 0;  // dropout's
  std::uint64_t data_seed = 1;         // the random tensors'
  Axes bias_axes, mask_axes;
  std::vector<Lengths> lengths;  // one for each sequence; empty: drawn from data_seed
};

// batch=1 seq=64 heads=1 d=64, both passes, everything else off.
Case default_case();
// Whether some sequence may be shorter than another.
inline bool has_lengths(const crossflash_problem& p) {
  return p.rows_q != CROSSFLASH_ROWS_ALL || p.rows_k != CROSSFLASH_ROWS_ALL;
}
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
