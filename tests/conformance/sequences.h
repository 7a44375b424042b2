// SPDX-License-Identifier: MIT
// sequences.h: how long the sequences of a case are, where their rows lie and in which pages. The
// data are unkind on purpose: packed rows that belong to nobody lie before, between and behind the
// sequences, more pages than are needed lie in no order, and what must not be looked at in their
// table points nowhere.
#pragma once

#include <vector>

#include "common/case_line.h"
#include "common/problem.h"
#include "common/reference/attention.h"

namespace crossflash::conformance {

// As the case says or its data seed draws: none, one row, odd numbers and the longest among them.
// A side whose rows are all there has seq of them. May be longer than the longest, to be clamped.
std::vector<Lengths> sequence_lengths(const Case& c);

// Rows of packed tensors, and pages of a pool.
std::int64_t total_rows(const Case& c, crossflash_rows kind, std::int64_t Lengths::*side);
std::int64_t total_pages(const Case& c);

// rows_q, rows_k and page_table.
void place_sequences(const Case& c, const Problem& problem, reference::Inputs* inputs);

// Which elements of a tensor, in the reference's contiguous order, belong to a sequence; empty:
// all.
std::vector<bool> in_sequences(const Problem& problem, const reference::Inputs& inputs,
                               TensorId id);

}  // namespace crossflash::conformance
