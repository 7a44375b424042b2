// SPDX-License-Identifier: MIT
// option_scenarios.cpp: what an option says may be said in other ways: a mask as a bias of -inf, a
// causal mask as bits, packed sequences one by one, pages as one tensor, an option that changes
// nothing. And what belongs to no sequence may hold anything.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/conformance/scenarios.h"
#include "tests/conformance/sequences.h"
#include "tests/conformance/subject.h"

namespace crossflash::conformance {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two ways to the same f32 numbers, which a device may take in another order.
void expect_close(const char* name, const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size()) << name;
  for (std::size_t n = 0; n < a.size(); ++n) {
    if (a[n] == b[n]) continue;
    ASSERT_LE(std::abs(a[n] - b[n]), 2e-5f * std::max(1.0f, std::abs(b[n])))
        << name << ", element " << n << ": " << a[n] << " and " << b[n];
  }
}

void expect_close(const Results& a, const Results& b) {
  expect_close("o", a.o, b.o);
  expect_close("lse", a.lse, b.lse);
  expect_close("grad_q", a.grad_q, b.grad_q);
  expect_close("grad_k", a.grad_k, b.grad_k);
  expect_close("grad_v", a.grad_v, b.grad_v);
}

Problem checked(const Execution& e) {
  Problem problem;
  const Status status = check_problem(e.problem, &problem);
  if (!status.ok()) throw std::logic_error(status.text());
  return problem;
}

// Into all that is of no sequence.
void fill_unused(Execution* e, float value) {
  const Problem problem = checked(*e);
  e->gap = value;
  for (const auto& [id, values] :
       {std::pair{TensorId::q, &e->inputs.q}, std::pair{TensorId::k, &e->inputs.k},
        std::pair{TensorId::v, &e->inputs.v}, std::pair{TensorId::grad_o, &e->inputs.grad_o}}) {
    if (values->empty()) continue;
    const std::vector<bool> used = in_sequences(problem, e->inputs, id);
    for (std::size_t n = 0; n < used.size(); ++n)
      if (!used[n]) (*values)[n] = value;
  }
}

// A cache of 128 keys of which 1 and 97 are in use, padded rows, 100 packed rows of which 72 are in
// use, pages of nobody: zeros there, NaN or infinity, all give the same bits.
void rows_of_nobody_do_not_matter(const Device& device) {
  for (const char* type : {"f32", "f16", "bf16"})
    for (const char* line :
         {"seq=9x128 lens=9x1,9x97 rows=all/lengths heads=4/2 d=40 layout=padded",
          "seq=9x128 lens=9x1,9x97 rows=all/lengths heads=4/2 d=40 page=16 passes=forward",
          "seq=2x128 lens=2x1,2x97 rows=all/lengths heads=8/2 d=64 page=16 passes=forward",
          "lens=33x30,39x42 rows=offsets heads=4/2 d=40",
          "lens=33x30,39x42 rows=lengths heads=4/2 d=64",
          "lens=33x33,39x39,0x0 rows=offsets heads=2 d=64 layout=packed causal=bottom-right"}) {
      Execution e = execution_of(case_of(fmt::format("{} type={} deterministic", line, type)));
      fill_unused(&e, 0);
      const Results clean = run(device, e);
      for (const float stale : {kNan, kInf, -kInf}) {
        fill_unused(&e, stale);
        EXPECT_EQ(first_difference(clean, run(device, e)), "")
            << stale << " in what is not used of\n  case: " << line << " type=" << type;
      }
    }
}

// The rows of a sequence of a side, one after the other.
std::vector<float> rows_of(const std::vector<float>& tensor, const reference::SideRows& rows,
                           std::int64_t size) {
  std::vector<float> out;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const auto at = tensor.begin() + rows.flat(row) * size;
    out.insert(out.end(), at, at + size);
  }
  return out;
}

void pages_are_one_tensor(const Device& device) {
  for (const char* words : {"seq=33x128 d=40", "seq=2x300 d=64 causal=bottom-right"}) {
    const std::string line = fmt::format("batch=2 heads=4/2 passes=forward {}", words);
    const Execution paged = execution_of(case_of(line + " page=16"));
    Execution dense = execution_of(case_of(line));
    const Problem problem = checked(paged);
    dense.inputs.q = paged.inputs.q;
    dense.inputs.k.clear();
    dense.inputs.v.clear();
    for (std::int64_t b = 0; b < 2; ++b) {
      const auto rows = reference::key_rows(problem, paged.inputs, b);
      for (const auto& [to, from] : {std::pair{&dense.inputs.k, &paged.inputs.k},
                                     std::pair{&dense.inputs.v, &paged.inputs.v}}) {
        const auto part = rows_of(*from, rows, 2 * problem.d);
        to->insert(to->end(), part.begin(), part.end());
      }
    }
    SCOPED_TRACE(line);
    expect_close(run(device, paged), run(device, dense));
  }
}

// Sequence b of the results as a problem of its own has it.
std::vector<float> lse_of(const std::vector<float>& lse, const Tensor& t,
                          const reference::SideRows& rows) {
  std::vector<float> out;
  for (std::int64_t h = 0; h < t.heads; ++h)
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const std::int64_t flat = rows.flat(row);
      out.push_back(
          lse[static_cast<std::size_t>((flat / t.seq * t.heads + h) * t.seq + flat % t.seq)]);
    }
  return out;
}

void sequences_are_problems_of_their_own(const Device& device) {
  for (const char* kind : {"offsets", "lengths"})
    for (const char* words : {"", "causal=bottom-right", "causal=top-left window=20,0", "alibi"}) {
      const std::string options = fmt::format("heads=4/2 d=40 {}", words);
      const Case c = case_of(fmt::format("lens=33x64,90x41,5x90 rows={} {}", kind, options));
      const Execution together = execution_of(c);
      const Problem problem = checked(together);
      const Results all = run(device, together);
      const std::int64_t q_row = 4 * 40, k_row = 2 * 40;
      for (std::int64_t b = 0; b < c.problem.batch; ++b) {
        const Lengths& one = c.lengths[static_cast<std::size_t>(b)];
        const auto queries = reference::query_rows(problem, together.inputs, b);
        const auto keys = reference::key_rows(problem, together.inputs, b);
        Execution alone = execution_of(case_of(fmt::format("seq={}x{} {}", one.q, one.k, options)));
        alone.inputs.q = rows_of(together.inputs.q, queries, q_row);
        alone.inputs.k = rows_of(together.inputs.k, keys, k_row);
        alone.inputs.v = rows_of(together.inputs.v, keys, k_row);
        alone.inputs.grad_o = rows_of(together.inputs.grad_o, queries, q_row);
        Results part;
        part.o = rows_of(all.o, queries, q_row);
        part.lse = lse_of(all.lse, problem.tensor(TensorId::lse), queries);
        part.grad_q = rows_of(all.grad_q, queries, q_row);
        part.grad_k = rows_of(all.grad_k, keys, k_row);
        part.grad_v = rows_of(all.grad_v, keys, k_row);
        SCOPED_TRACE(fmt::format("sequence {}, rows={} {}", b, kind, options));
        expect_close(part, run(device, alone));
      }
    }
}

constexpr std::int64_t kQueries = 70, kKeys = 190, kWords = 6;

// Bits of [kQueries, kKeys] as a bias.
std::vector<float> bias_of(const std::vector<shared::uint>& mask) {
  std::vector<float> bias;
  for (std::int64_t i = 0; i < kQueries; ++i)
    for (std::int64_t j = 0; j < kKeys; ++j) {
      const shared::uint word = mask[static_cast<std::size_t>(i * kWords + j / 32)];
      bias.push_back((word >> (j % 32) & 1u) != 0 ? 0.0f : -kInf);
    }
  return bias;
}

void a_mask_is_a_bias_of_minus_infinity(const Device& device) {
  const Execution bits = execution_of(case_of("seq=70x190 heads=4/2 d=64 mask=qk"));
  Execution bias = execution_of(case_of("seq=70x190 heads=4/2 d=64 bias=qk"));
  ASSERT_TRUE(std::any_of(bits.inputs.mask.begin(), bits.inputs.mask.end(),
                          [](shared::uint word) { return word == 0; }));
  bias.inputs.bias = bias_of(bits.inputs.mask);
  expect_close(run(device, bits), run(device, bias));
}

void a_causal_mask_is_bits(const Device& device) {
  for (const char* corner : {"top-left", "bottom-right"}) {
    Execution bits = execution_of(case_of("seq=70x190 heads=2/1 d=64 mask=qk"));
    std::fill(bits.inputs.mask.begin(), bits.inputs.mask.end(), 0u);
    const std::int64_t diagonal = corner == std::string("top-left") ? 0 : kKeys - kQueries;
    for (std::int64_t i = 0; i < kQueries; ++i)
      for (std::int64_t j = 0; j <= i + diagonal; ++j)
        bits.inputs.mask[static_cast<std::size_t>(i * kWords + j / 32)] |= 1u << (j % 32);
    SCOPED_TRACE(corner);
    expect_close(run(device, bits),
                 run(device, case_of(fmt::format("seq=70x190 heads=2/1 d=64 causal={}", corner))));
  }
}

// Zero bias, slopes of zero, sinks of -inf, a mask of ones, lengths that are the longest, a cap far
// above all scores, dropout's state in another place.
void options_without_effect_have_none(const Device& device) {
  const char* const base =
      "batch=2 seq=70x90 heads=4/2 d=40 dropout=0.2 seed=3 causal=bottom-right";
  const Results plain = run(device, case_of(base));
  for (const char* words :
       {"bias=hqk", "alibi", "sink", "mask=bqk", "rows=lengths lens=70x90,70x90",
        "rows=all/lengths lens=70x90,70x90 row-bits=64", "softcap=100000", "device-seed"}) {
    Execution e = execution_of(case_of(fmt::format("{} {}", base, words)));
    std::fill(e.inputs.bias.begin(), e.inputs.bias.end(), 0.0f);
    std::fill(e.inputs.alibi.begin(), e.inputs.alibi.end(), 0.0f);
    std::fill(e.inputs.sink.begin(), e.inputs.sink.end(), -kInf);
    std::fill(e.inputs.mask.begin(), e.inputs.mask.end(), ~0u);
    SCOPED_TRACE(words);
    expect_close(run(device, e), plain);
  }
}

// The gradient of a bias that heads and batches share is the sum of those of one for each.
void a_shared_bias_has_the_sum_of_gradients(const Device& device) {
  const Execution shared = execution_of(case_of("batch=3 seq=40x70 heads=4/2 d=24 bias=qk dbias"));
  Execution own = execution_of(case_of("batch=3 seq=40x70 heads=4/2 d=24 dbias"));
  own.inputs.bias.clear();
  for (int n = 0; n < 3 * 4; ++n)
    own.inputs.bias.insert(own.inputs.bias.end(), shared.inputs.bias.begin(),
                           shared.inputs.bias.end());
  const Results a = run(device, shared), b = run(device, own);
  expect_close(a, b);
  std::vector<float> sum(a.grad_bias.size());
  for (std::size_t n = 0; n < b.grad_bias.size(); ++n) sum[n % sum.size()] += b.grad_bias[n];
  expect_close("grad_bias", a.grad_bias, sum);
}

// A row that has nothing but its sink: o = 0, lse is the sink, and whatever dO is, no gradient.
void a_sink_alone_gives_nothing(const Device& device) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    Execution e = execution_of(case_of(
        fmt::format("seq=9x5 heads=3 d=24 dsink causal=bottom-right type={} deterministic", type)));
    constexpr std::size_t kBlind = 4, kRow = 3 * 24;
    std::fill_n(e.inputs.grad_o.begin(), kBlind * kRow, 10000.0f);
    const Results large = run(device, e);
    for (std::size_t n = 0; n < kBlind * kRow; ++n) {
      ASSERT_EQ(large.o[n], 0.0f) << "o, element " << n << ", " << type;
      ASSERT_EQ(large.grad_q[n], 0.0f) << "grad_q, element " << n << ", " << type;
    }
    for (std::size_t h = 0; h < 3; ++h)
      for (std::size_t i = 0; i < kBlind; ++i) {
        const float sink = e.inputs.sink[h];
        if (sink == -kInf) {
          ASSERT_EQ(large.lse[h * 9 + i], -kInf) << "head " << h << ", query " << i << ", " << type;
        } else {
          ASSERT_NEAR(large.lse[h * 9 + i], sink, 4e-6f)
              << "head " << h << ", query " << i << ", " << type;
        }
      }
    std::fill_n(e.inputs.grad_o.begin(), kBlind * kRow, 0.0f);
    const Results none = run(device, e);
    EXPECT_EQ(first_difference(large, none), "") << type;
    EXPECT_EQ(none.grad_sink[1], 0.0f) << "of a sink of -inf, " << type;
  }
}

constexpr Scenario kScenarios[] = {
    {"rows_of_nobody_do_not_matter", rows_of_nobody_do_not_matter},
    {"pages_are_one_tensor", pages_are_one_tensor},
    {"sequences_are_problems_of_their_own", sequences_are_problems_of_their_own},
    {"a_mask_is_a_bias_of_minus_infinity", a_mask_is_a_bias_of_minus_infinity},
    {"a_causal_mask_is_bits", a_causal_mask_is_bits},
    {"options_without_effect_have_none", options_without_effect_have_none},
    {"a_shared_bias_has_the_sum_of_gradients", a_shared_bias_has_the_sum_of_gradients},
    {"a_sink_alone_gives_nothing", a_sink_alone_gives_nothing},
};

}  // namespace

std::span<const Scenario> option_scenarios() { return kScenarios; }

}  // namespace crossflash::conformance
