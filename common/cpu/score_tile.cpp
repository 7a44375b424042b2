// SPDX-License-Identifier: MIT
#include "common/cpu/score_tile.h"

#include "common/shared/dropout.h"
#include "common/shared/mask.h"

namespace crossflash::cpu {

using namespace shared;  // the contract's functions, all of which begin with cf_

namespace {

constexpr int kWord = 32;  // bits of a word of the mask

Interval within(Interval range, int begin, int end) {
  return {std::clamp(range.begin, begin, end) - begin, std::clamp(range.end, begin, end) - begin};
}

std::int64_t row_at(const ScoreStrides& s, const Head& head, int i) {
  return head.sequence.b * s.batch + head.h * s.head + i * s.seq_q;
}

const uint* mask_row(const Run& run, const Head& head, int i) {
  return run.options.mask + row_at(run.problem.mask.strides, head, i);
}

bool has_bit(const uint* row, int j) { return (row[j / kWord] >> (j % kWord) & 1u) != 0; }

// Whether any of bits [j0, j1) is set, a word at a time.
bool has_bit_between(const uint* row, int j0, int j1) {
  for (int j = j0; j < j1; j = (j / kWord + 1) * kWord) {
    const int in_word = std::min(kWord - j % kWord, j1 - j);
    const uint bits = row[j / kWord] >> (j % kWord);
    if ((in_word == kWord ? bits : bits & ((1u << in_word) - 1u)) != 0) return true;
  }
  return false;
}

}  // namespace

Intervals everywhere(int depth) {
  Intervals all;
  all.fill({0, depth});
  return all;
}

Intervals visible_keys(const cf_visibility& p, const Block& block) {
  Intervals rows{};
  for (int i = block.i0; i < block.i1; ++i)
    rows[static_cast<std::size_t>(i - block.i0)] =
        within({cf_keys_begin(p, i), cf_keys_end(p, i + 1)}, block.j0, block.j1);
  return rows;
}

Intervals visible_queries(const cf_visibility& p, const Block& block) {
  const int i1 = block.i1;
  Intervals rows{};
  for (int j = block.j0; j < block.j1; ++j)
    rows[static_cast<std::size_t>(j - block.j0)] =
        within({cf_queries_begin(p, j, i1), cf_queries_end(p, j + 1, i1)}, block.i0, i1);
  return rows;
}

bool has_bits(const Run& run, const Head& head, const Block& block) {
  const Mask& mask = run.problem.mask;
  if (!mask.given) return true;
  const int rows = mask.strides.seq_q == 0 ? 1 : block.i1 - block.i0;
  for (int i = block.i0; i < block.i0 + rows; ++i)
    if (has_bit_between(mask_row(run, head, i), block.j0, block.j1)) return true;
  return false;
}

void fill_keep(const Run& run, const Head& head, const Block& block, Layout at, float* keep) {
  const cf_score& score = run.problem.score;
  const bool drop = (score.features & CF_DROPOUT) != 0;
  const auto bh = static_cast<uint>(head.flat);
  uvec4 draws(0u, 0u, 0u, 0u);
  for (int i = block.i0; i < block.i1; ++i)
    for (int j = block.j0; j < block.j1; ++j) {
      const auto key = static_cast<uint>(j);
      if (drop && (j == block.j0 || key % CF_DROPOUT_KEYS == 0))
        draws = cf_dropout_block(run.dropout, bh, static_cast<uint>(i), key / CF_DROPOUT_KEYS);
      const bool kept = !drop || cf_dropout_keeps(run.dropout, draws, key);
      keep[(i - block.i0) * at.query + (j - block.j0) * at.key] = kept ? score.keep_scale : 0.0f;
    }
}

void fill_added(const Run& run, const Head& head, const Block& block, Layout at, float* added) {
  const Problem& p = run.problem;
  const bool with_alibi = p.has(CF_ALIBI);
  const float slope = with_alibi ? run.options.alibi[head.h] : 0.0f;
  for (int i = block.i0; i < block.i1; ++i) {
    float* row = added + (i - block.i0) * at.query;
    const std::int64_t bias_row = row_at(p.bias.strides, head, i);
    const uint* bits = p.mask.given ? mask_row(run, head, i) : nullptr;
    for (int j = block.j0; j < block.j1; ++j) {
      float sum = 0.0f;
      if (p.bias.given)
        sum = load_element(p.bias.dtype, run.options.bias,
                           static_cast<std::size_t>(bias_row + j * p.bias.strides.seq_k));
      if (with_alibi) sum += cf_alibi(slope, i + head.sequence.visibility.diagonal - j);
      if (bits != nullptr && !has_bit(bits, j)) sum = cf_neg_inf();
      row[(j - block.j0) * at.key] = sum;
    }
  }
}

}  // namespace crossflash::cpu
