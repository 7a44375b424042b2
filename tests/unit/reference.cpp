// SPDX-License-Identifier: MIT
// The references against what is not theirs: exact_attention's forward against a direct evaluation
// of the contract, its gradients against central differences of its forward, and plain_attention
// against exact_attention. The golden file (golden.cpp) is the third witness.
#include "common/reference/attention.h"

#include <algorithm>
#include <functional>

#include "tests/unit/support.h"

namespace crossflash {
namespace {

using reference::exact_attention;
using reference::Inputs;
using reference::Outputs;
using reference::plain_attention;
using testing::checked;
using testing::max_error;
using testing::problem_of;
using testing::random_inputs;

std::vector<crossflash_problem> small_problems() {
  std::vector<crossflash_problem> all;
  const auto add = [&all](crossflash_problem p, const auto& change) {
    change(p);
    all.push_back(p);
  };
  add(problem_of(1, 4, 5, 1, 1, 3, 3), [](auto&) {});
  add(problem_of(2, 3, 5, 4, 2, 4, 2), [](auto& p) { p.scale = 0.7f; });
  add(problem_of(1, 3, 6, 3, 1, 2, 5), [](auto& p) { p.causal = CROSSFLASH_CAUSAL_TOP_LEFT; });
  add(problem_of(1, 6, 3, 2, 2, 3, 3), [](auto& p) { p.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT; });
  add(problem_of(1, 6, 3, 2, 1, 3, 3), [](auto& p) { p.causal = CROSSFLASH_CAUSAL_TOP_LEFT; });
  add(problem_of(1, 5, 8, 2, 1, 3, 3), [](auto& p) { p.window_left = 2, p.window_right = 0; });
  add(problem_of(1, 8, 5, 1, 1, 3, 3), [](auto& p) { p.window_left = 1, p.window_right = 1; });
  add(problem_of(2, 4, 9, 2, 1, 3, 4), [](auto& p) { p.dropout = 0.4f; });
  add(problem_of(1, 5, 5, 2, 2, 3, 3), [](auto& p) {
    p.dropout = 0.25f;
    p.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT;
    p.scale = -1.5f;
  });
  return all;
}

// Every option, alone and with others; inputs are option_inputs().
std::vector<crossflash_problem> option_problems() {
  std::vector<crossflash_problem> all;
  const auto add = [&all](crossflash_problem p, const auto& change) {
    change(p);
    all.push_back(p);
  };
  const auto bias = [](auto& p, const crossflash_score_strides& strides) {
    p.bias = CROSSFLASH_WITH_GRADIENT;
    p.bias_strides = strides;
  };
  add(problem_of(1, 4, 5, 2, 1, 3, 3), [](auto& p) { p.softcap = 0.75f; });
  add(problem_of(2, 3, 5, 2, 1, 3, 3), [&](auto& p) { bias(p, {}); });
  add(problem_of(2, 3, 5, 2, 1, 3, 3), [&](auto& p) { bias(p, {0, 21, 7, 1}); });
  add(problem_of(2, 3, 5, 2, 1, 3, 3), [&](auto& p) { bias(p, {5, 0, 0, 1}); });
  add(problem_of(1, 3, 6, 2, 1, 3, 3), [](auto& p) { p.alibi = 1; });
  add(problem_of(2, 6, 3, 3, 1, 3, 3), [](auto& p) {
    p.sink = CROSSFLASH_WITH_GRADIENT;
    p.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT;
  });
  add(problem_of(2, 4, 9, 2, 1, 3, 3), [](auto& p) { p.mask = 1; });
  add(problem_of(3, 5, 6, 2, 1, 3, 3), [](auto& p) {
    p.rows_q = p.rows_k = CROSSFLASH_ROWS_LENGTHS;
    p.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT;
  });
  add(problem_of(3, 5, 6, 2, 1, 3, 3), [](auto& p) {
    p.rows_q = p.rows_k = CROSSFLASH_ROWS_OFFSETS;
    p.total_q = p.total_k = 16;
  });
  add(problem_of(3, 5, 6, 3, 1, 3, 4), [&](auto& p) {
    p.rows_q = p.rows_k = CROSSFLASH_ROWS_OFFSETS;
    p.total_q = p.total_k = 16;
    p.softcap = 1.5f;
    p.alibi = p.mask = 1;
    p.sink = CROSSFLASH_WITH_GRADIENT;
    p.dropout = 0.3f;
    bias(p, {0, 30, 6, 1});
  });
  return all;
}

Inputs option_inputs(const Problem& p) {
  Inputs in = random_inputs(p);
  std::mt19937_64 random(3);
  const auto draw = [&random] { return static_cast<float>(random() % 512) / 256 - 1; };
  in.bias.resize(static_cast<std::size_t>(p.option_extent(OptionId::bias)));
  for (float& x : in.bias) x = draw();
  for (std::int64_t h = 0; h < p.heads_q; ++h) {
    in.alibi.push_back(std::exp2(-static_cast<float>(h)));
    in.sink.push_back(draw());
  }
  in.mask.resize(static_cast<std::size_t>(p.option_extent(OptionId::mask)));
  for (shared::uint& word : in.mask) word = static_cast<shared::uint>(random());
  if (!in.mask.empty()) in.mask[1] = 0;
  const auto rows = [](crossflash_rows kind) -> std::vector<std::int64_t> {
    if (kind == CROSSFLASH_ROWS_ALL) return {};
    if (kind == CROSSFLASH_ROWS_LENGTHS) return {5, 0, 3};
    return {1, 6, 6, 9};
  };
  in.rows_q = rows(p.sequences.q);
  in.rows_k = rows(p.sequences.k);
  return in;
}

std::string name_of(const crossflash_problem& p) {
  return fmt::format("batch {} seq {}x{} heads {}/{} d {} d_v {} causal {} window {},{} dropout {}",
                     p.batch, p.seq_q, p.seq_k, p.heads_q, p.heads_kv, p.d, p.d_v,
                     static_cast<int>(p.causal), p.window_left, p.window_right, p.dropout);
}

// ---- forward
// ---------------------------------------------------------------------------------------

// The contract's formulas for one element of o, from the fields a user sets.
struct Direct {
  const crossflash_problem& p;
  const Inputs& in;
  std::vector<std::uint8_t> mask;

  Direct(const crossflash_problem& problem, const Inputs& inputs) : p(problem), in(inputs) {
    mask.resize(static_cast<std::size_t>(p.batch * p.heads_q * p.seq_q * p.seq_k));
    crossflash_dropout_mask(&p, 0x123456789abcdefu, 5, mask.data());
  }

  bool visible(std::int64_t i, std::int64_t j) const {
    const auto offset = p.causal == CROSSFLASH_CAUSAL_TOP_LEFT ? 0 : p.seq_k - p.seq_q;
    return !(p.causal != CROSSFLASH_NOT_CAUSAL && j > i + offset) &&
           !(p.window_left >= 0 && j < i + offset - p.window_left) &&
           !(p.window_right >= 0 && j > i + offset + p.window_right);
  }
  double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const auto h_kv = h / (p.heads_q / p.heads_kv);
    double dot = 0;
    for (std::int64_t c = 0; c < p.d; ++c)
      dot += double{at(in.q, ((b * p.seq_q + i) * p.heads_q + h) * p.d + c)} *
             double{at(in.k, ((b * p.seq_k + j) * p.heads_kv + h_kv) * p.d + c)};
    return dot * static_cast<double>(std::isnan(p.scale) ? 1 / std::sqrt(static_cast<float>(p.d))
                                                         : p.scale);
  }
  double lse(std::int64_t b, std::int64_t h, std::int64_t i) const {
    double sum = 0;
    for (std::int64_t j = 0; j < p.seq_k; ++j)
      sum += visible(i, j) ? std::exp(score(b, h, i, j)) : 0;
    return std::log(sum);  // log(0) is -inf
  }
  double o(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    double sum = 0;
    for (std::int64_t j = 0; j < p.seq_k; ++j) {
      if (!visible(i, j) || at(mask, ((b * p.heads_q + h) * p.seq_q + i) * p.seq_k + j) == 0)
        continue;
      const auto v = ((b * p.seq_k + j) * p.heads_kv + h / (p.heads_q / p.heads_kv)) * p.d_v + c;
      sum += std::exp(score(b, h, i, j) - lse(b, h, i)) * double{at(in.v, v)};
    }
    return sum / (1 - double{p.dropout});
  }
  template <typename T>
  static T at(const std::vector<T>& values, std::int64_t n) {
    return values[static_cast<std::size_t>(n)];
  }
};

TEST(Reference, ExactForwardIsTheContract) {
  for (const crossflash_problem& p : small_problems()) {
    SCOPED_TRACE(name_of(p));
    const Inputs in = random_inputs(checked(p));
    const Outputs out = exact_attention(checked(p), in);
    const Direct direct(p, in);
    std::vector<double> o, lse;
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t i = 0; i < p.seq_q; ++i)
        for (std::int64_t h = 0; h < p.heads_q; ++h)
          for (std::int64_t c = 0; c < p.d_v; ++c) o.push_back(direct.o(b, h, i, c));
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t h = 0; h < p.heads_q; ++h)
        for (std::int64_t i = 0; i < p.seq_q; ++i) lse.push_back(direct.lse(b, h, i));
    EXPECT_LT(max_error(out.o, o), 1e-13);
    EXPECT_LT(max_error(out.lse, lse), 1e-13);
  }
}

// ---- backward
// --------------------------------------------------------------------------------------

double loss(const Problem& p, const Inputs& in) {
  const Outputs out = exact_attention(p, in);
  double sum = 0;
  for (std::size_t n = 0; n < out.o.size(); ++n) sum += out.o[n] * double{in.grad_o[n]};
  return sum;
}

// d(loss)/d(tensor) by central differences with two steps; inputs are multiples of 1/256, so that
// an input plus or minus a step is exact.
std::vector<double> differences(const Problem& p, Inputs& in, std::vector<float> Inputs::*tensor) {
  std::vector<double> gradient;
  for (float& x : in.*tensor) {
    const float at = x;
    const auto slope = [&](float step) {
      x = at + step;
      const double above = loss(p, in);
      x = at - step;
      const double below = loss(p, in);
      x = at;
      return (above - below) / (2 * double{step});
    };
    gradient.push_back((4 * slope(1.0f / 256) - slope(1.0f / 128)) / 3);
  }
  return gradient;
}

TEST(Reference, ExactGradientsAreTheDerivatives) {
  for (const crossflash_problem& problem : small_problems()) {
    SCOPED_TRACE(name_of(problem));
    const Problem p = checked(problem);
    Problem forward_only = p;
    forward_only.backward = false;
    Inputs in = random_inputs(p);
    const Outputs out = exact_attention(p, in);
    EXPECT_LT(max_error(out.grad_q, differences(forward_only, in, &Inputs::q)), 1e-7);
    EXPECT_LT(max_error(out.grad_k, differences(forward_only, in, &Inputs::k)), 1e-7);
    EXPECT_LT(max_error(out.grad_v, differences(forward_only, in, &Inputs::v)), 1e-11);
  }
}

TEST(Reference, ExactGradientsOfOptionsAreTheDerivatives) {
  int bias = 0, sink = 0, number = 0;
  for (const crossflash_problem& problem : option_problems()) {
    SCOPED_TRACE(fmt::format("option problem {}", number++));
    const Problem p = checked(problem);
    crossflash_problem forward_problem = problem;
    forward_problem.passes = CROSSFLASH_FORWARD;
    const Problem forward_only = checked(forward_problem);
    Inputs in = option_inputs(p);
    const Outputs out = exact_attention(p, in);
    EXPECT_LT(max_error(out.grad_q, differences(forward_only, in, &Inputs::q)), 1e-6);
    EXPECT_LT(max_error(out.grad_k, differences(forward_only, in, &Inputs::k)), 1e-6);
    EXPECT_LT(max_error(out.grad_v, differences(forward_only, in, &Inputs::v)), 1e-11);
    if (p.sink_gradient) {
      ++sink;
      EXPECT_LT(max_error(out.grad_sink, differences(forward_only, in, &Inputs::sink)), 1e-8);
    }
    if (!p.bias.gradient) continue;
    ++bias;
    const std::vector<double> slopes = differences(forward_only, in, &Inputs::bias);
    std::vector<double> contiguous;  // without the gaps of the bias' strides
    const ScoreStrides& from = p.bias.strides;
    for (std::int64_t b = 0; b < (from.batch != 0 ? p.batch : 1); ++b)
      for (std::int64_t h = 0; h < (from.head != 0 ? p.heads_q : 1); ++h)
        for (std::int64_t i = 0; i < (from.seq_q != 0 ? p.seq_q : 1); ++i)
          for (std::int64_t j = 0; j < (from.seq_k != 0 ? p.seq_k : 1); ++j)
            contiguous.push_back(slopes[static_cast<std::size_t>(b * from.batch + h * from.head +
                                                                 i * from.seq_q + j * from.seq_k)]);
    EXPECT_LT(max_error(out.grad_bias, contiguous), 1e-8);
  }
  EXPECT_EQ(bias, 4);
  EXPECT_EQ(sink, 2);
}

// ---- plain
// -----------------------------------------------------------------------------------------

TEST(Reference, PlainErrsByTheRoundingOfItsType) {
  for (crossflash_problem problem : small_problems())
    for (const auto& [dtype, epsilon] : {std::pair{CROSSFLASH_F32, 0x1p-24},
                                         {CROSSFLASH_F16, 0x1p-11},
                                         {CROSSFLASH_BF16, 0x1p-8}}) {
      problem.dtype = dtype;
      SCOPED_TRACE(name_of(problem) + " " + dtype_name(dtype));
      const Problem p = checked(problem);
      const Inputs in = random_inputs(p);
      const Outputs exact = exact_attention(p, in);
      const Outputs plain = plain_attention(p, in);
      // A dozen roundings of numbers of about ten, at the most.
      EXPECT_LT(max_error(plain.o, exact.o), 100 * epsilon);
      EXPECT_LT(max_error(plain.lse, exact.lse), 100 * epsilon);
      EXPECT_LT(max_error(plain.grad_q, exact.grad_q), 200 * epsilon);
      EXPECT_LT(max_error(plain.grad_k, exact.grad_k), 200 * epsilon);
      EXPECT_LT(max_error(plain.grad_v, exact.grad_v), 200 * epsilon);
      EXPECT_GT(max_error(plain.o, exact.o), 0.01 * epsilon) << "it must round";
      for (double x : plain.grad_q)
        EXPECT_EQ(x, double{round_to(dtype, static_cast<float>(x))}) << "outputs are of the type";
    }
}

// ---- edges
// -----------------------------------------------------------------------------------------

TEST(Reference, ARowThatSeesNoKeyGivesNothing) {
  crossflash_problem problem = problem_of(1, 6, 3, 2, 1, 4, 4);
  problem.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT;  // rows 0 to 2 see nothing
  const Problem p = checked(problem);
  Inputs in = random_inputs(p);
  const Outputs before = exact_attention(p, in);
  for (std::size_t n = 0; n < 3 * 2 * 4; ++n) {
    EXPECT_EQ(before.o[n], 0);
    EXPECT_EQ(before.grad_q[n], 0);
    in.q[n] = in.grad_o[n] = NAN;  // may be anything
  }
  for (std::size_t h = 0; h < 2; ++h)
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(before.lse[h * 6 + i], -INFINITY);
  for (const auto& attention : {exact_attention, plain_attention}) {
    const Outputs after = attention(p, in);
    EXPECT_LT(max_error(after.o, before.o), 1e-5);
    EXPECT_LT(max_error(after.grad_q, before.grad_q), 1e-5);
    EXPECT_LT(max_error(after.grad_k, before.grad_k), 1e-5);
    EXPECT_LT(max_error(after.grad_v, before.grad_v), 1e-5);
  }
}

TEST(Reference, RowsOfNoSequenceAreNotRead) {
  for (const auto kind : {CROSSFLASH_ROWS_LENGTHS, CROSSFLASH_ROWS_OFFSETS}) {
    crossflash_problem problem = problem_of(2, 4, 5, 2, 1, 3, 3);
    problem.rows_q = problem.rows_k = kind;
    problem.total_q = problem.total_k = 9;
    const Problem p = checked(problem);
    Inputs in = random_inputs(p);
    in.rows_q = in.rows_k = kind == CROSSFLASH_ROWS_LENGTHS ? std::vector<std::int64_t>{3, 2}
                                                            : std::vector<std::int64_t>{1, 4, 6};
    const Outputs before = exact_attention(p, in);
    std::vector<bool> used(in.q.size() / 6);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t i = 0; i < reference::query_rows(p, in, b).count; ++i)
        used[static_cast<std::size_t>(reference::query_rows(p, in, b).flat(i))] = true;
    EXPECT_EQ(std::count(used.begin(), used.end(), true), 5);
    for (std::size_t n = 0; n < in.q.size(); ++n)
      if (!used[n / 6]) {
        in.q[n] = in.grad_o[n] = NAN;
        EXPECT_EQ(before.o[n], 0);
        EXPECT_EQ(before.grad_q[n], 0);
      }
    const Outputs after = exact_attention(p, in);
    EXPECT_EQ(max_error(after.o, before.o), 0);
    EXPECT_EQ(max_error(after.grad_q, before.grad_q), 0);
    EXPECT_EQ(max_error(after.grad_k, before.grad_k), 0);
    EXPECT_EQ(max_error(after.grad_v, before.grad_v), 0);
  }
}

TEST(Reference, PagesAreReadByTheirTable) {
  crossflash_problem problem = problem_of(2, 3, 20, 2, 1, 3, 3);
  problem.passes = CROSSFLASH_FORWARD;
  const Problem dense = checked(problem);
  const Inputs in = random_inputs(dense);
  problem.page_size = 16;
  problem.pages = 5;
  Inputs paged = in;
  paged.page_table = {3, 0, 4, 1};
  const auto scatter = [&](const std::vector<float>& from) {
    std::vector<float> to(5 * 16 * 3, NAN);
    for (std::size_t n = 0; n < from.size(); ++n) {
      const std::size_t row = n / 3 % 20, b = n / 3 / 20;
      const auto page = static_cast<std::size_t>(paged.page_table[b * 2 + row / 16]);
      to[(page * 16 + row % 16) * 3 + n % 3] = from[n];
    }
    return to;
  };
  paged.k = scatter(in.k);
  paged.v = scatter(in.v);
  EXPECT_EQ(max_error(exact_attention(checked(problem), paged).o, exact_attention(dense, in).o), 0);
}

TEST(Reference, AKeyThatNobodySeesIsNotRead) {
  crossflash_problem problem = problem_of(1, 3, 6, 2, 1, 4, 4);
  problem.causal = CROSSFLASH_CAUSAL_TOP_LEFT;  // keys 3 to 5 are seen by nobody
  const Problem p = checked(problem);
  Inputs in = random_inputs(p);
  const Outputs before = exact_attention(p, in);
  for (std::size_t n = 3 * 4; n < 6 * 4; ++n) {
    in.k[n] = in.v[n] = NAN;
    EXPECT_EQ(before.grad_k[n], 0);
    EXPECT_EQ(before.grad_v[n], 0);
  }
  const Outputs after = exact_attention(p, in);
  EXPECT_EQ(max_error(after.o, before.o), 0);
  EXPECT_EQ(max_error(after.grad_q, before.grad_q), 0);
  EXPECT_EQ(max_error(after.grad_k, before.grad_k), 0);
  EXPECT_EQ(max_error(after.grad_v, before.grad_v), 0);
}

TEST(Reference, EmptyAxesGiveEmptyOrZero) {
  for (const auto& attention : {exact_attention, plain_attention}) {
    const Problem no_keys = checked(problem_of(1, 3, 0, 2, 1, 4, 4));
    const Outputs out = attention(no_keys, random_inputs(no_keys));
    EXPECT_EQ(out.o, std::vector<double>(3 * 2 * 4, 0.0));
    EXPECT_EQ(out.grad_q, std::vector<double>(3 * 2 * 4, 0.0));
    EXPECT_EQ(out.lse, std::vector<double>(3 * 2, -INFINITY));
    const Problem no_queries = checked(problem_of(1, 0, 3, 2, 1, 4, 4));
    EXPECT_EQ(attention(no_queries, random_inputs(no_queries)).grad_k,
              std::vector<double>(3 * 4, 0.0));
    const Problem no_batch = checked(problem_of(0, 3, 3, 2, 1, 4, 4));
    EXPECT_TRUE(attention(no_batch, random_inputs(no_batch)).o.empty());
  }
}

TEST(Reference, GroupedGradientsAreTheSumOverTheGroup) {
  const Problem grouped = checked(problem_of(1, 4, 5, 6, 2, 3, 3));
  const Problem separate = checked(problem_of(1, 4, 5, 6, 6, 3, 3));
  const Inputs in = random_inputs(grouped);
  Inputs repeated = in;
  const auto repeat = [](const std::vector<float>& from, std::vector<float>* to) {
    to->clear();
    for (std::size_t j = 0; j < 5; ++j)
      for (std::size_t h = 0; h < 6; ++h)
        for (std::size_t c = 0; c < 3; ++c) to->push_back(from[(j * 2 + h / 3) * 3 + c]);
  };
  repeat(in.k, &repeated.k);
  repeat(in.v, &repeated.v);
  const Outputs a = exact_attention(grouped, in);
  const Outputs b = exact_attention(separate, repeated);
  EXPECT_EQ(max_error(a.o, b.o), 0);
  const auto summed = [](const std::vector<double>& from) {
    std::vector<double> to(5 * 2 * 3, 0.0);
    for (std::size_t j = 0; j < 5; ++j)
      for (std::size_t h = 0; h < 6; ++h)
        for (std::size_t c = 0; c < 3; ++c)
          to[(j * 2 + h / 3) * 3 + c] += from[(j * 6 + h) * 3 + c];
    return to;
  };
  EXPECT_LT(max_error(a.grad_k, summed(b.grad_k)), 1e-13);
  EXPECT_LT(max_error(a.grad_v, summed(b.grad_v)), 1e-13);
}

TEST(Reference, LargeScoresStayFinite) {
  const Problem p = checked(problem_of(1, 3, 4, 1, 1, 2, 2));
  Inputs in = random_inputs(p);
  for (float& x : in.q) x *= 1000;
  for (float& x : in.k) x *= 1000;
  for (const auto& attention : {exact_attention, plain_attention})
    for (double x : attention(p, in).grad_q) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace crossflash
