// SPDX-License-Identifier: MIT
#include "common/cpu/sequence.h"

namespace crossflash::cpu {
namespace {

using namespace shared;  // the contract's functions, all of which begin with cf_

// Entry n of lengths or offsets.
int index_at(const Problem& p, const std::byte* indices, std::int64_t n) {
  if (p.sequences.index_bytes == 4) return reinterpret_cast<const std::int32_t*>(indices)[n];
  const auto index = static_cast<std::uint64_t>(reinterpret_cast<const std::int64_t*>(indices)[n]);
  return cf_index64(static_cast<uint>(index), static_cast<uint>(index >> 32));
}

Rows rows_of(const Problem& p, crossflash_rows kind, const std::byte* indices, std::int64_t most,
             std::int64_t total, std::int64_t b) {
  const auto longest = static_cast<int>(most);
  switch (kind) {
    case CROSSFLASH_ROWS_ALL:
      break;
    case CROSSFLASH_ROWS_LENGTHS:
      return {b, 0, cf_padded_rows(index_at(p, indices, b), longest).count};
    case CROSSFLASH_ROWS_OFFSETS: {
      const cf_rows rows = cf_packed_rows(index_at(p, indices, b), index_at(p, indices, b + 1),
                                          static_cast<int>(total), longest);
      return {0, rows.first, rows.count};
    }
  }
  return {b, 0, longest};
}

}  // namespace

Sequence::Sequence(const Run& run, std::int64_t n)
    : b(n),
      queries(rows_of(run.problem, run.problem.sequences.q, run.options.rows_q, run.problem.seq_q,
                      run.problem.sequences.total_q, n)),
      keys(rows_of(run.problem, run.problem.sequences.k, run.options.rows_k, run.problem.seq_k,
                   run.problem.sequences.total_k, n)),
      visibility(cf_visibility_of(run.problem.visibility, run.problem.sequences.top_left,
                                  queries.count, keys.count)) {
  const Pages& pages = run.problem.pages;
  if (pages.size > 0) keys.pages = run.options.page_table + n * pages.of_sequence;
}

Head::Head(const Run& run, const Sequence& of, std::int64_t n)
    : sequence(of),
      h(n),
      h_kv(n / run.problem.group()),
      flat(of.b * run.problem.heads_q + n),
      row(0) {
  const Strides& s = run.problem.tensor(TensorId::lse).strides;
  row = of.queries.batch * s.batch + n * s.head + of.queries.first;
}

}  // namespace crossflash::cpu
