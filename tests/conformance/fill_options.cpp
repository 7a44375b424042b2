// SPDX-License-Identifier: MIT
// fill_options.cpp: what the buffers of options hold. Bias and mask have values only where a
// sequence has a query and a key; elsewhere, in gaps and in padding, they hold NaN or ones.
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/half.h"
#include "tests/conformance/fill.h"
#include "tests/conformance/sequences.h"
#include "tests/conformance/splitmix.h"

namespace crossflash::conformance {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Calls f(b, h, i, j) for each element of its own along the axes there are; 0 along others.
template <typename Function>
void for_each_score(const Problem& p, const ScoreStrides& s, Function&& f) {
  const auto count = [](std::int64_t stride, std::int64_t extent) {
    return stride == 0 ? std::min<std::int64_t>(extent, 1) : extent;
  };
  for (std::int64_t b = 0; b < count(s.batch, p.batch); ++b)
    for (std::int64_t h = 0; h < count(s.head, p.heads_q); ++h)
      for (std::int64_t i = 0; i < count(s.seq_q, p.seq_q); ++i)
        for (std::int64_t j = 0; j < count(s.seq_k, p.seq_k); ++j) f(b, h, i, j);
}

// The largest index along queries and keys that some sequence which shares an element reaches.
class Reach {
 public:
  Reach(const Problem& p, const reference::Inputs& inputs, const ScoreStrides& strides)
      : strides_(strides) {
    for (std::int64_t b = 0; b < p.batch; ++b)
      lengths_.push_back(
          {reference::query_rows(p, inputs, b).count, reference::key_rows(p, inputs, b).count});
  }

  bool has(std::int64_t b, std::int64_t i, std::int64_t j) const {
    const auto within = [i, j](const Lengths& one) { return i < one.q && j < one.k; };
    return strides_.batch != 0 ? within(lengths_[static_cast<std::size_t>(b)])
                               : std::any_of(lengths_.begin(), lengths_.end(), within);
  }

 private:
  ScoreStrides strides_;
  std::vector<Lengths> lengths_;
};

// With ties an eighth of the elements hide theirs, and all of the middle row.
float draw_bias(const Case& c, const Problem& p, Random& random, std::int64_t i) {
  switch (c.fill) {
    case Fill::ties:
      if (random.below(8) == 0 || (p.bias.strides.seq_q != 0 && i > 0 && i == p.seq_q / 2))
        return -kInf;
      return static_cast<float>(random.below(3)) - 1.0f;
    case Fill::large:
      return 12.0f * static_cast<float>(random.normal());
    default:
      return static_cast<float>(random.normal());
  }
}

std::vector<float> make_bias(const Case& c, const Problem& p, const reference::Inputs& inputs) {
  std::vector<float> bias(static_cast<std::size_t>(p.option_extent(OptionId::bias)), kNan);
  const ScoreStrides& s = p.bias.strides;
  const Reach reach(p, inputs, s);
  Random random(c.data_seed * 4 + 11);
  for_each_score(p, s, [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    const float value = draw_bias(c, p, random, i);
    if (reach.has(b, i, j))
      bias[static_cast<std::size_t>(b * s.batch + h * s.head + i * s.seq_q + j * s.seq_k)] =
          round_to(p.bias.dtype, value);
  });
  return bias;
}

// Blocks of 64 x 64, a third of them empty and a sixth of them full, as tiles are; one row of
// every head sees nothing.
std::vector<shared::uint> make_mask(const Case& c, const Problem& p,
                                    const reference::Inputs& inputs) {
  constexpr std::int64_t kBlock = 64;
  std::vector<shared::uint> mask(static_cast<std::size_t>(p.option_extent(OptionId::mask)), ~0u);
  const ScoreStrides& s = p.mask.strides;
  const Reach reach(p, inputs, s);
  Random random(c.data_seed * 4 + 22);
  const auto across = static_cast<std::uint64_t>((p.seq_k + kBlock - 1) / kBlock);
  const bool one_block = across <= 1 && p.seq_q <= kBlock;
  const auto kind = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    const auto head = static_cast<std::uint64_t>(b * p.heads_q + h);
    const auto row = head * 4096 + static_cast<std::uint64_t>(i / kBlock);
    return Random(c.data_seed + row * across + static_cast<std::uint64_t>(j / kBlock)).below(6);
  };
  const ScoreStrides rows{s.batch, s.head, s.seq_q, 0};
  for_each_score(p, rows, [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t) {
    const std::int64_t row = b * s.batch + h * s.head + i * s.seq_q;
    for (std::int64_t j = 0; j < p.seq_k; ++j) {
      const std::uint64_t block = one_block ? 5 : kind(b, h, i, j);
      const bool blind = s.seq_q != 0 && i > 0 && i == p.seq_q / 2;
      const bool kept = block == 2 || (block > 2 && random.below(4) != 0);
      if (reach.has(b, i, j) && (blind || !kept))
        mask[static_cast<std::size_t>(row + j / 32)] &= ~(1u << (j % 32));
    }
  });
  return mask;
}

// Press et al. 2022: a geometric series from 2^(-8 / heads).
std::vector<float> make_alibi(const Problem& p) {
  std::vector<float> slopes;
  for (std::int64_t h = 0; h < p.heads_q; ++h)
    slopes.push_back(std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(p.heads_q)));
  return slopes;
}

// Of three heads or more one has no sink, and one has little but it.
std::vector<float> make_sink(const Case& c, const Problem& p) {
  Random random(c.data_seed * 4 + 33);
  std::vector<float> sink;
  for (std::int64_t h = 0; h < p.heads_q; ++h) sink.push_back(static_cast<float>(random.normal()));
  if (p.heads_q > 2) {
    sink[1] = -kInf;
    sink.back() = 7.0f;
  }
  return sink;
}

}  // namespace

void fill_options(const Case& c, const Problem& problem, reference::Inputs* inputs) {
  place_sequences(c, problem, inputs);
  if (problem.uses(OptionId::bias, false)) inputs->bias = make_bias(c, problem, *inputs);
  if (problem.uses(OptionId::mask, false)) inputs->mask = make_mask(c, problem, *inputs);
  if (problem.uses(OptionId::alibi, false)) inputs->alibi = make_alibi(problem);
  if (problem.uses(OptionId::sink, false)) inputs->sink = make_sink(c, problem);
}

}  // namespace crossflash::conformance
