// SPDX-License-Identifier: MIT
#include "tests/conformance/sequences.h"

#include <algorithm>
#include <utility>

#include "tests/conformance/splitmix.h"

namespace crossflash::conformance {
namespace {

constexpr std::int64_t kTail = 28;  // packed rows behind the last sequence
constexpr std::int64_t kSpare = 3;  // pages of nobody

// Packed rows before the first sequence.
std::int64_t lead(const Case& c) { return c.layout == Layout::padded ? 3 : 0; }

// The b-th of sequences of at most `most` rows; `turn` is where the round of kinds begins.
std::int64_t draw_length(Random& random, std::int64_t most, std::int64_t turn) {
  const auto some = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most + 1)));
  switch (turn % 5) {
    case 0:
      return std::min(some | 1, most);
    case 1:
      return most;
    case 2:
      return some;
    case 3:
      return 0;
    default:
      return std::min<std::int64_t>(most, 1);
  }
}

// The offset of each packed sequence, and of the end.
std::vector<std::int64_t> offsets(const Case& c, std::int64_t Lengths::*side) {
  std::vector<std::int64_t> at{lead(c)};
  for (const Lengths& one : sequence_lengths(c)) at.push_back(at.back() + one.*side);
  return at;
}

std::vector<std::int64_t> rows(const Case& c, crossflash_rows kind, std::int64_t Lengths::*side) {
  if (kind == CROSSFLASH_ROWS_ALL) return {};
  if (kind == CROSSFLASH_ROWS_OFFSETS) return offsets(c, side);
  std::vector<std::int64_t> lengths;
  for (const Lengths& one : sequence_lengths(c)) lengths.push_back(one.*side);
  return lengths;
}

std::int64_t pages_of(const crossflash_problem& p, std::int64_t keys) {
  return (std::min(keys, p.seq_k) + p.page_size - 1) / p.page_size;
}

// Each sequence's pages in a random order of all; entries past its keys, if any, point nowhere.
std::vector<std::int32_t> page_table(const Case& c, const Problem& problem) {
  constexpr std::int32_t kNowhere[] = {-7, 1 << 30, -2147483647};
  std::vector<std::int32_t> pool(static_cast<std::size_t>(problem.pages.count));
  for (std::size_t n = 0; n < pool.size(); ++n) pool[n] = static_cast<std::int32_t>(n);
  Random random(c.data_seed * 4 + 77);
  for (std::size_t n = pool.size(); n > 1; --n) std::swap(pool[n - 1], pool[random.below(n)]);

  std::vector<std::int32_t> table;
  auto next = pool.begin();
  for (const Lengths& one : sequence_lengths(c)) {
    const std::int64_t used = pages_of(c.problem, one.k);
    for (std::int64_t n = 0; n < problem.pages.of_sequence; ++n)
      table.push_back(n < used ? *next++ : kNowhere[n % 3]);
  }
  return table;
}

}  // namespace

std::vector<Lengths> sequence_lengths(const Case& c) {
  const crossflash_problem& p = c.problem;
  std::vector<Lengths> lengths = c.lengths;
  Random random(c.data_seed * 4 + 55);
  for (std::int64_t b = std::ssize(lengths); b < p.batch; ++b) {
    const auto seed = static_cast<std::int64_t>(c.data_seed % 1000);
    const Lengths drawn{draw_length(random, p.seq_q, b + seed - 1),
                        draw_length(random, p.seq_k, 2 * b + seed / 3)};
    lengths.push_back(c.layout == Layout::packed_qkv ? Lengths{drawn.q, drawn.q} : drawn);
  }
  for (Lengths& one : lengths) {
    if (p.rows_q == CROSSFLASH_ROWS_ALL) one.q = p.seq_q;
    if (p.rows_k == CROSSFLASH_ROWS_ALL) one.k = p.seq_k;
  }
  return lengths;
}

std::int64_t total_rows(const Case& c, crossflash_rows kind, std::int64_t Lengths::*side) {
  return kind == CROSSFLASH_ROWS_OFFSETS ? offsets(c, side).back() + kTail : 0;
}

std::int64_t total_pages(const Case& c) {
  std::int64_t pages = kSpare;
  for (const Lengths& one : sequence_lengths(c)) pages += pages_of(c.problem, one.k);
  return pages;
}

void place_sequences(const Case& c, const Problem& problem, reference::Inputs* inputs) {
  inputs->rows_q = rows(c, problem.sequences.q, &Lengths::q);
  inputs->rows_k = rows(c, problem.sequences.k, &Lengths::k);
  if (problem.pages.size > 0) inputs->page_table = page_table(c, problem);
}

std::vector<bool> in_sequences(const Problem& problem, const reference::Inputs& inputs,
                               TensorId id) {
  const bool keys =
      id == TensorId::k || id == TensorId::v || id == TensorId::grad_k || id == TensorId::grad_v;
  const bool all = keys ? problem.sequences.k == CROSSFLASH_ROWS_ALL && problem.pages.size == 0
                        : problem.sequences.q == CROSSFLASH_ROWS_ALL;
  if (all) return {};
  const Tensor& t = problem.tensor(id);
  std::vector<bool> used(static_cast<std::size_t>(t.batch * t.seq * t.heads * t.width));
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const auto rows =
        keys ? reference::key_rows(problem, inputs, b) : reference::query_rows(problem, inputs, b);
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const std::int64_t flat = rows.flat(row);
      for (std::int64_t n = 0; n < t.heads * t.width; ++n) {
        // lse alone has its heads outside of the rows.
        const std::int64_t at = id == TensorId::lse
                                    ? (flat / t.seq * t.heads + n) * t.seq + flat % t.seq
                                    : flat * t.heads * t.width + n;
        used[static_cast<std::size_t>(at)] = true;
      }
    }
  }
  return used;
}

}  // namespace crossflash::conformance
