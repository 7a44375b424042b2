// SPDX-License-Identifier: MIT
// Appending to a cache: where rows stand and which buffers the pass takes; the reference against
// angles added as complex numbers; the backend "cpu" against the reference, through the C API.
#include <complex>
#include <numbers>
#include <numeric>

#include "common/reference/append.h"
#include "common/shared/rotary.h"
#include "crossflash/crossflash.hpp"
#include "tests/unit/support.h"

namespace crossflash {
namespace {

using testing::checked;
using testing::problem_of;

crossflash_problem appending(std::int64_t batch, std::int64_t seq_q, std::int64_t seq_k) {
  crossflash_problem p = problem_of(batch, seq_q, seq_k, 4, 2, 8, 6);
  p.passes = CROSSFLASH_APPEND;
  return p;
}

std::vector<float> normal_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

// Every tensor filled; angle n of position p is p / (n + 1).
reference::Inputs inputs_of(const Problem& p) {
  const auto extent = [&](OptionId id) { return static_cast<std::size_t>(p.option_extent(id)); };
  reference::Inputs in;
  in.q = normal_values(testing::elements(p, TensorId::q), 1);
  in.k = normal_values(testing::elements(p, TensorId::k), 2);
  in.v = normal_values(testing::elements(p, TensorId::v), 3);
  in.new_k = normal_values(extent(OptionId::new_k), 4);
  in.new_v = normal_values(extent(OptionId::new_v), 5);
  const std::int64_t half = p.append.rotary / 2;
  for (std::int64_t n = 0; n < half * p.append.positions; ++n) {
    const double angle = static_cast<double>(n / half) / static_cast<double>(n % half + 1);
    in.cosine.push_back(static_cast<float>(std::cos(angle)));
    in.sine.push_back(static_cast<float>(std::sin(angle)));
  }
  return in;
}

TEST(Append, APassUsesItsBuffersAndNoOthers) {
  crossflash_problem in = appending(2, 3, 7);
  in.passes = CROSSFLASH_APPEND | CROSSFLASH_FORWARD;
  in.softcap = 30;
  in.sink = CROSSFLASH_GIVEN;
  in.rows_k = CROSSFLASH_ROWS_LENGTHS;
  const Problem copied = checked(in);
  EXPECT_TRUE(copied.uses(TensorId::k, Pass::append));
  EXPECT_TRUE(copied.uses(TensorId::v, Pass::append));
  EXPECT_TRUE(copied.uses(OptionId::new_k, Pass::append));
  EXPECT_TRUE(copied.uses(OptionId::rows_k, Pass::append));
  EXPECT_FALSE(copied.uses(OptionId::sink, Pass::append));
  EXPECT_TRUE(copied.uses(OptionId::sink, Pass::forward));
  EXPECT_FALSE(copied.uses(OptionId::new_v, Pass::forward));
  for (const TensorId id : {TensorId::q, TensorId::o, TensorId::lse})
    EXPECT_FALSE(copied.uses(id, Pass::append));
  for (const OptionId id : {OptionId::rotated_q, OptionId::cosine, OptionId::sine})
    EXPECT_FALSE(copied.uses(id, Pass::append));

  in.rotary = 6;
  in.positions = 5;
  const Problem rotated = checked(in);
  EXPECT_TRUE(rotated.uses(TensorId::q, Pass::append));
  EXPECT_TRUE(rotated.uses(OptionId::rotated_q, Pass::append));
  EXPECT_EQ(rotated.option_extent(OptionId::cosine), 15);
  EXPECT_EQ(rotated.option_extent(OptionId::new_k), 2 * 3 * 2 * 8);
  EXPECT_EQ(rotated.option_extent(OptionId::new_v), 2 * 3 * 2 * 6);
}

TEST(Append, RowsOfPackedQueriesAreTheNewOnes) {
  crossflash_problem in = appending(3, 4, 9);
  in.rows_q = CROSSFLASH_ROWS_OFFSETS;
  in.total_q = 7;
  EXPECT_EQ(checked(in).option_extent(OptionId::new_k), 7 * 2 * 8);
}

TEST(Append, NewRowsAreTheLastOnes) {
  EXPECT_EQ(shared::cf_append_position(0, 1, 10), 9);
  EXPECT_EQ(shared::cf_append_position(3, 4, 4), 3);
  EXPECT_LT(shared::cf_append_position(1, 4, 2), 0);
  EXPECT_EQ(shared::cf_append_position(2, 4, 2), 0);
  EXPECT_EQ(shared::cf_rotary_row(-2, 5), 0);
  EXPECT_EQ(shared::cf_rotary_row(4, 5), 4);
  EXPECT_EQ(shared::cf_rotary_row(9, 5), 4);
}

// By hand, at position 1: half turns and quarter turns move elements without rounding.
TEST(Append, PairsAreHalvesOrNeighbours) {
  for (const bool interleaved : {false, true}) {
    crossflash_problem in = problem_of(1, 1, 2, 1, 1, 6, 1);
    in.passes = CROSSFLASH_APPEND;
    in.rotary = 4;
    in.positions = 2;
    in.rotary_pairs = interleaved ? CROSSFLASH_ROTARY_INTERLEAVED : CROSSFLASH_ROTARY_HALVES;
    reference::Inputs inputs;
    inputs.q = {10, 20, 30, 40, 50, 60};
    inputs.k.resize(12, 7);
    inputs.v = {8, 9};
    inputs.new_k = {1, 2, 3, 4, 5, 6};
    inputs.new_v = {99};
    inputs.cosine = {1, 1, 0, -1};  // by pair, of position 0 and 1
    inputs.sine = {0, 0, 1, 0};
    const reference::Appended out = reference::exact_append(checked(in), inputs);
    using Row = std::vector<double>;
    EXPECT_EQ(Row(out.k.begin(), out.k.begin() + 6), Row(6, 7));
    EXPECT_EQ(Row(out.k.begin() + 6, out.k.end()),
              interleaved ? (Row{-2, 1, -3, -4, 5, 6}) : (Row{-3, -2, 1, -4, 5, 6}));
    EXPECT_EQ(out.v, (Row{8, 99}));
    EXPECT_EQ(out.rotated_q,
              interleaved ? (Row{-20, 10, -30, -40, 50, 60}) : (Row{-30, -20, 10, -40, 50, 60}));
  }
}

// What rotary embedding is for: the product of a query at m and a key at n depends on n - m alone,
// as the real part of sum conj(q) k exp(i (n - m) theta).
TEST(Append, ProductsDependOnTheDistanceAlone) {
  constexpr std::int64_t kRows = 5, kWidth = 8;
  for (const bool interleaved : {false, true}) {
    crossflash_problem in = problem_of(1, kRows, kRows, 1, 1, kWidth, 1);
    in.passes = CROSSFLASH_APPEND;
    in.rotary = kWidth;
    in.positions = kRows;
    in.rotary_pairs = interleaved ? CROSSFLASH_ROTARY_INTERLEAVED : CROSSFLASH_ROTARY_HALVES;
    const Problem p = checked(in);
    const reference::Inputs inputs = inputs_of(p);
    const reference::Appended out = reference::exact_append(p, inputs);
    const auto number = [&](const std::vector<float>& x, std::int64_t row, std::int64_t n) {
      const std::int64_t first = row * kWidth + (interleaved ? 2 * n : n);
      return std::complex<double>(x[static_cast<std::size_t>(first)],
                                  x[static_cast<std::size_t>(first + (interleaved ? 1 : 4))]);
    };
    for (std::int64_t m = 0; m < kRows; ++m)
      for (std::int64_t n = 0; n < kRows; ++n) {
        std::complex<double> expected = 0;
        for (std::int64_t c = 0; c < kWidth / 2; ++c)
          expected += std::conj(number(inputs.q, m, c)) * number(inputs.new_k, n, c) *
                      std::polar(1.0, static_cast<double>(n - m) / static_cast<double>(c + 1));
        const auto row = [](const std::vector<double>& x, std::int64_t at) {
          return x.begin() + at * kWidth;
        };
        EXPECT_NEAR(std::inner_product(row(out.rotated_q, m), row(out.rotated_q, m + 1),
                                       row(out.k, n), 0.0),
                    expected.real(), 1e-5);
      }
  }
}

// Lengths 5, 2 and 0 with 3, 3 and 0 new rows: the second has no place for its first.
TEST(Append, LengthsCountTheNewRows) {
  crossflash_problem in = problem_of(3, 4, 6, 1, 1, 1, 1);
  in.passes = CROSSFLASH_APPEND;
  in.rows_q = in.rows_k = CROSSFLASH_ROWS_LENGTHS;
  reference::Inputs inputs;
  inputs.q.resize(12);
  inputs.k.resize(18, -1);
  inputs.v = inputs.k;
  inputs.new_k.resize(12);
  std::iota(inputs.new_k.begin(), inputs.new_k.end(), 0.0f);
  inputs.new_v = inputs.new_k;
  inputs.rows_q = {3, 3, 0};
  inputs.rows_k = {5, 2, 0};
  const reference::Appended out = reference::exact_append(checked(in), inputs);
  EXPECT_EQ(out.k, (std::vector<double>{-1, -1, 0, 1, 2, -1, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1,
                                        -1, -1}));
  EXPECT_EQ(out.v, out.k);
  EXPECT_TRUE(out.rotated_q.empty());
}

// The backend "cpu" through the C API in f32, rotated in place of q.
TEST(Append, CpuDoesAsTheReference) {
  crossflash_problem in = appending(3, 70, 200);
  in.rows_q = CROSSFLASH_ROWS_LENGTHS;
  in.rows_k = CROSSFLASH_ROWS_LENGTHS;
  in.page_size = 16;
  in.pages = 40;
  in.rotary = 6;
  in.positions = 180;
  const Problem p = checked(in);
  reference::Inputs inputs = inputs_of(p);
  inputs.rows_q = {70, 66, 1};
  inputs.rows_k = {200, 50, 0};
  inputs.page_table.resize(static_cast<std::size_t>(p.option_extent(OptionId::page_table)));
  std::iota(inputs.page_table.rbegin(), inputs.page_table.rend(), 1);
  const reference::Appended expected = reference::exact_append(p, inputs);

  const Device device("cpu");
  const Plan plan(device, in);
  std::vector<std::int32_t> rows_q(inputs.rows_q.begin(), inputs.rows_q.end());
  std::vector<std::int32_t> rows_k(inputs.rows_k.begin(), inputs.rows_k.end());
  crossflash_args args = make_args();
  args.k.handle = inputs.k.data();
  args.v.handle = inputs.v.data();
  args.q.handle = args.rotated_q.handle = inputs.q.data();
  args.new_k.handle = inputs.new_k.data();
  args.new_v.handle = inputs.new_v.data();
  args.cosine.handle = inputs.cosine.data();
  args.sine.handle = inputs.sine.data();
  args.rows_q.handle = rows_q.data();
  args.rows_k.handle = rows_k.data();
  args.page_table.handle = inputs.page_table.data();
  plan.append(args);
  const auto doubles = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  EXPECT_LE(testing::max_error(doubles(inputs.k), expected.k), 1e-6);
  EXPECT_EQ(doubles(inputs.v), expected.v);
  EXPECT_LE(testing::max_error(doubles(inputs.q), expected.rotated_q), 1e-6);
  EXPECT_EQ(plan.workspace(CROSSFLASH_APPEND), 0u);

  args.sine.handle = nullptr;
  EXPECT_EQ(crossflash_append(plan.get(), &args), CROSSFLASH_INVALID);
  EXPECT_STREQ(crossflash_last_error(), "sine is NULL; this pass needs it");
  EXPECT_EQ(crossflash_forward(plan.get(), &args), CROSSFLASH_INVALID);
}

}  // namespace
}  // namespace crossflash
