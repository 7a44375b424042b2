// SPDX-License-Identifier: MIT
// option_gradients.cpp: a task owns elements of a gradient and walks through all that share them.
// For the bias it computes S and dP of a tile once more, so that it need neither store dS nor add
// to memory that another task adds to.
#include "common/cpu/option_gradients.h"

#include "common/cpu/differentiate.h"
#include "common/shared/mask.h"

namespace crossflash::cpu {

using namespace shared;  // the contract's functions, all of which begin with cf_

namespace {

struct Range {
  std::int64_t begin, end;
};

// One axis of the bias: tasks own parts of `step`, or all of it together if its elements are
// shared.
struct Axis {
  std::int64_t length, step;
  bool is_shared;

  Axis(std::int64_t stride, std::int64_t whole, std::int64_t part)
      : length(whole), step(part), is_shared(stride == 0) {}
  std::int64_t parts() const { return is_shared ? 1 : (length + step - 1) / step; }
  // What part n walks through, and of the gradient what it owns.
  Range walked(std::int64_t n) const {
    if (is_shared) return {0, length};
    return {n * step, std::min(length, (n + 1) * step)};
  }
  std::int64_t owned(std::int64_t n) const {
    const Range range = walked(n);
    return is_shared ? 1 : range.end - range.begin;
  }
};

struct BiasAxes {
  Axis batch, head, query, key;

  explicit BiasAxes(const Problem& p)
      : batch(p.bias.strides.batch, p.batch, 1),
        head(p.bias.strides.head, p.heads_q, 1),
        query(p.bias.strides.seq_q, p.seq_q, kTile),
        key(p.bias.strides.seq_k, p.seq_k, kTile) {}
};

// Adds a tile's dS, with Q and dO held, to the sums of the elements it belongs to.
void add_tile(const Run& run, const Head& head, const BiasAxes& axes, const Block& block,
              Tiles& t) {
  const Sequence& sequence = head.sequence;
  if (!has_bits(run, head, block)) return;
  const Intervals seen = visible_keys(sequence.visibility, block);
  load_rows(run.k, sequence.keys, head.h_kv, block.j0, block.j1, t.streamed_d.data());
  load_rows(run.v, sequence.keys, head.h_kv, block.j0, block.j1, t.streamed_v.data());
  fill_modifiers(run, head, block, kQueriesDown, t);
  recompute(run.problem, block.i1 - block.i0, block.j1 - block.j0, t);
  // Tiles of an axis that is not shared begin where the task's part does.
  const std::size_t row_stride = axes.query.is_shared ? 0 : kTile;
  const std::size_t column_stride = axes.key.is_shared ? 0 : 1;
  for_each_gradient<true>(run, block.i1 - block.i0, seen, head.row + block.i0, t,
                          [&](std::size_t at, float, float, float grad_score) {
                            t.grad_bias[at / kTile * row_stride + at % kTile * column_stride] +=
                                double{grad_score};
                          });
}

// The tiles of a head among queries and keys of the given ranges.
void add_head(const Run& run, const Head& head, const BiasAxes& axes, Range queries, Range keys,
              Tiles& t) {
  const Sequence& sequence = head.sequence;
  const cf_visibility& p = sequence.visibility;
  const auto query_end =
      static_cast<int>(std::min<std::int64_t>(queries.end, sequence.queries.count));
  const auto key_end = static_cast<int>(std::min<std::int64_t>(keys.end, sequence.keys.count));
  for (auto i0 = static_cast<int>(queries.begin); i0 < query_end; i0 += kTile) {
    const int i1 = std::min(i0 + kTile, query_end);
    load_rows(run.q, sequence.queries, head.h, i0, i1, t.held_d.data());
    load_rows(run.grad_o, sequence.queries, head.h, i0, i1, t.held_v.data());
    for (auto j0 = static_cast<int>(keys.begin); j0 < key_end; j0 += kTile) {
      const int j1 = std::min(j0 + kTile, key_end);
      if (cf_keys_begin(p, i0) < j1 && j0 < cf_keys_end(p, i1))
        add_tile(run, head, axes, {i0, i1, j0, j1}, t);
    }
  }
}

}  // namespace

void bias_gradient(const Run& run) {
  const Problem& p = run.problem;
  const BiasAxes axes(p);
  const ScoreStrides& strides = p.bias.grad_strides;
  const std::int64_t key_parts = axes.key.parts(), query_parts = axes.query.parts();
  const std::int64_t head_parts = axes.head.parts(), batch_parts = axes.batch.parts();
  parallel_for(batch_parts * head_parts * query_parts * key_parts, [&](std::int64_t n) {
    const std::int64_t key_part = n % key_parts, query_part = n / key_parts % query_parts;
    const std::int64_t head_part = n / key_parts / query_parts % head_parts;
    const std::int64_t batch_part = n / key_parts / query_parts / head_parts;
    const Range keys = axes.key.walked(key_part), queries = axes.query.walked(query_part);
    const Range heads = axes.head.walked(head_part), batches = axes.batch.walked(batch_part);
    const auto borrowed = run.tiles.borrow();
    Tiles& t = *borrowed;

    std::fill(t.grad_bias.begin(), t.grad_bias.end(), 0.0);
    for (std::int64_t b = batches.begin; b < batches.end; ++b) {
      const Sequence sequence(run, b);
      for (std::int64_t h = heads.begin; h < heads.end; ++h)
        add_head(run, Head(run, sequence, h), axes, queries, keys, t);
    }
    const std::int64_t first = batches.begin * strides.batch + heads.begin * strides.head;
    for (std::int64_t r = 0; r < axes.query.owned(query_part); ++r)
      for (std::int64_t x = 0; x < axes.key.owned(key_part); ++x)
        store_element(p.bias.dtype, run.options.grad_bias,
                      static_cast<std::size_t>(first + (queries.begin + r) * strides.seq_q +
                                               (keys.begin + x) * strides.seq_k),
                      static_cast<float>(t.grad_bias[static_cast<std::size_t>(r * kTile + x)]));
  });
}

// The sink is a key without a value: its probability, mended like its row's, times 0 - D.
void sink_gradient(const Run& run) {
  const Problem& p = run.problem;
  parallel_for(p.heads_q, [&](std::int64_t h) {
    const double sink = double{sink_of(run, h)};
    double sum = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const Head head(run, Sequence(run, b), h);
      for (std::int64_t row = head.row; row < head.row + head.sequence.queries.count; ++row)
        if (!cf_is_neg_inf(run.lse[row]))  // which -inf is only if the sink is too
          sum += std::exp(sink - double{run.lse[row]}) * double{run.mend[row]} *
                 double{run.delta[row]};
    }
    run.options.grad_sink[h] = static_cast<float>(-sum);
  });
}

}  // namespace crossflash::cpu
