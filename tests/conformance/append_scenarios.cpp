// SPDX-License-Identifier: MIT
// append_scenarios.cpp: new rows put into a cache, rotated on the way, and a forward on what became
// of it. Every element that the pass may write is judged against the double reference; all else, in
// guards and gaps and in rows that it leaves alone, must keep its bits. What no sequence holds, and
// the cache's free rows, are NaN.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "common/half.h"
#include "common/reference/append.h"
#include "common/shared/sequence.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/memory.h"
#include "tests/conformance/scenarios.h"
#include "tests/conformance/subject.h"

namespace crossflash::conformance {
namespace {

// What a scenario varies; the batch is of four sequences, with rows below.
struct Setup {
  crossflash_rows rows_q = CROSSFLASH_ROWS_ALL, rows_k = CROSSFLASH_ROWS_LENGTHS;
  int row_bits = 32;
  std::int64_t page_size = 0;
  std::int64_t heads_q = 4, heads_kv = 2, d = 64, d_v = 32;
  std::int64_t rotary = 64;
  crossflash_rotary_pairs pairs = CROSSFLASH_ROTARY_HALVES;
  bool gaps = false;      // strides of odd sizes
  bool in_place = false;  // rotated_q is q
};

constexpr std::int64_t kBatch = 4, kMostNew = 5, kMostKeys = 40, kGuard = 64;
constexpr std::int64_t kNew[kBatch] = {5, 0, 3, 5};
constexpr std::int64_t kKeys[kBatch] = {40, 17, 21, 3};  // the last has no place for two of them
constexpr std::int64_t kPositions = 37;                  // fewer than there are keys

std::int64_t sum(const std::int64_t (&counts)[kBatch]) {
  return std::accumulate(counts, counts + kBatch, std::int64_t{0});
}

// Lengths, or offsets from row 1 on.
std::vector<std::int64_t> rows_of(crossflash_rows kind, const std::int64_t (&counts)[kBatch]) {
  if (kind == CROSSFLASH_ROWS_ALL) return {};
  if (kind == CROSSFLASH_ROWS_LENGTHS) return {counts, counts + kBatch};
  std::vector<std::int64_t> offsets = {1};
  for (const std::int64_t count : counts) offsets.push_back(offsets.back() + count);
  return offsets;
}

crossflash_problem problem_of(const Setup& s, crossflash_dtype dtype) {
  crossflash_problem p =
      make_problem(kBatch, kMostNew, kMostKeys, s.heads_q, s.heads_kv, s.d, dtype);
  p.passes = CROSSFLASH_APPEND | CROSSFLASH_FORWARD;
  p.d_v = s.d_v;
  p.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT;
  p.rows_q = s.rows_q;
  p.rows_k = s.rows_k;
  p.row_bits = s.row_bits;
  p.total_q = p.rows_q == CROSSFLASH_ROWS_OFFSETS ? sum(kNew) + 3 : 0;
  p.total_k = p.rows_k == CROSSFLASH_ROWS_OFFSETS ? sum(kKeys) + 3 : 0;
  p.page_size = s.page_size;
  p.pages = s.page_size > 0 ? kBatch * ((kMostKeys + s.page_size - 1) / s.page_size) + 2 : 0;
  p.rotary = s.rotary;
  p.rotary_pairs = s.pairs;
  p.positions = s.rotary > 0 ? kPositions : 0;
  if (!s.gaps) return p;
  const auto with_gaps = [](std::int64_t seq, std::int64_t heads, std::int64_t width) {
    const std::int64_t head = width + 3, row = heads * head + 5;
    return crossflash_strides{seq * row + 7, row, head, 1};
  };
  const std::int64_t queries = std::max(kMostNew, p.total_q);
  const std::int64_t keys = p.page_size > 0 ? p.page_size : std::max(kMostKeys, p.total_k);
  p.q = p.rotated_q = with_gaps(queries, s.heads_q, s.d);
  p.o = with_gaps(queries, s.heads_q, s.d_v);
  p.new_k = with_gaps(queries, s.heads_kv, s.d);
  p.new_v = with_gaps(queries, s.heads_kv, s.d_v);
  p.k = with_gaps(keys, s.heads_kv, s.d);
  p.v = with_gaps(keys, s.heads_kv, s.d_v);
  return p;
}

std::size_t count_of(const Tensor& t) { return View{t, 0}.count(); }

// One buffer on the device, before and after.
class Memory {
 public:
  Memory(const Device& device, const Tensor& tensor, const std::vector<float>& values,
         const std::vector<bool>& written = {})
      : view_{tensor, 0},
        before_(tensor.dtype, tensor.extent(), kGuard, Role::input,
                std::numeric_limits<float>::quiet_NaN()) {
    if (!written.empty()) before_.poison(view_, written);
    before_.write(view_, values);
    buffer_ = Buffer(device, std::span<const std::byte>(before_.bytes()));
  }

  crossflash_buffer buffer() const {
    const crossflash_buffer whole = buffer_;
    return {whole.handle, whole.offset + before_.offset(view_)};
  }
  // The elements, in contiguous order; what may not change must not have.
  std::vector<float> read(const char* name) const {
    Block after = before_;
    const std::vector<std::byte> bytes = buffer_.download<std::byte>();
    std::copy(bytes.begin(), bytes.end(), after.bytes().begin());
    EXPECT_EQ(after.damage(before_), "") << name;
    return after.read(view_);
  }

 private:
  View view_;
  Block before_;
  Buffer buffer_;
};

class AppendRun {
 public:
  AppendRun(const Device& device, const Setup& setup, crossflash_dtype dtype)
      : device_(device), setup_(setup), in_(problem_of(setup, dtype)) {
    if (const auto refused = refusal(device, in_)) throw Refused(in_, *refused);
    const Status status = check_problem(in_, &p_);
    if (!status.ok()) throw std::logic_error(status.text());
    make_inputs();
  }

  void run() {
    const Tensor &q = p_.tensor(TensorId::q), &k = p_.tensor(TensorId::k),
                 &v = p_.tensor(TensorId::v), &o = p_.tensor(TensorId::o);
    const Tensor& lse = p_.tensor(TensorId::lse);
    const bool rotates = p_.append.rotary > 0;
    const auto nan = [](const Tensor& t) { return std::vector<float>(count_of(t), NAN); };
    const std::vector<bool> rotated = of_rows(q, rotated_rows_);
    const Memory cache_k(device_, k, inputs_.k, of_rows(k, new_rows_));
    const Memory cache_v(device_, v, inputs_.v, of_rows(v, new_rows_));
    const Memory new_k(device_, p_.append.new_k, inputs_.new_k);
    const Memory new_v(device_, p_.append.new_v, inputs_.new_v);
    const Memory queries(device_, q, inputs_.q, setup_.in_place ? rotated : std::vector<bool>{});
    const Memory rotated_q(device_, q, nan(q), rotated);
    const Memory out(device_, o, nan(o), of_rows(o, rotated_rows_));
    const Buffer sums(device_, std::vector<float>(count_of(lse), NAN));
    const Buffer cosine(device_, inputs_.cosine.empty() ? std::vector<float>(1) : inputs_.cosine);
    const Buffer sine(device_, inputs_.sine.empty() ? std::vector<float>(1) : inputs_.sine);
    const Buffer rows_q = indices(inputs_.rows_q), rows_k = indices(inputs_.rows_k);
    std::vector<std::int32_t> table = inputs_.page_table;
    table.push_back(0);
    const Buffer page_table(device_, table);

    const Plan plan(device_, in_);
    crossflash_args args = make_args();
    args.q = queries.buffer();
    args.k = cache_k.buffer();
    args.v = cache_v.buffer();
    args.new_k = new_k.buffer();
    args.new_v = new_v.buffer();
    args.rows_q = rows_q;
    args.rows_k = rows_k;
    args.page_table = page_table;
    if (rotates) {
      args.cosine = cosine;
      args.sine = sine;
      args.rotated_q = setup_.in_place ? args.q : rotated_q.buffer();
    }
    plan.append(args);
    // Before anything is waited for.
    if (rotates) args.q = args.rotated_q;
    args.o = out.buffer();
    args.lse = sums;
    plan.forward(args);
    device_.wait();

    reference::Inputs after = inputs_;
    after.k = cache_k.read("k");
    after.v = cache_v.read("v");
    const reference::Appended expected = reference::exact_append(p_, inputs_);
    judge("k", k, after.k, expected.k, new_rows_, p_.append.rotary);
    judge("v", v, after.v, expected.v, new_rows_, 0);
    const std::vector<float> q_after = queries.read("q"),
                             rotated_after = rotated_q.read("rotated_q");
    if (rotates) {
      after.q = setup_.in_place ? q_after : rotated_after;
      judge("rotated_q", q, after.q, expected.rotated_q, rotated_rows_, p_.append.rotary);
    }
    new_k.read("new_k");
    new_v.read("new_v");
    judge_forward(after, out.read("o"));
  }

 private:
  void make_inputs() {
    inputs_.rows_q = rows_of(in_.rows_q, kNew);
    inputs_.rows_k = rows_of(in_.rows_k, kKeys);
    inputs_.page_table.resize(static_cast<std::size_t>(p_.option_extent(OptionId::page_table)));
    std::iota(inputs_.page_table.rbegin(), inputs_.page_table.rend(), 1);
    const Tensor &q = p_.tensor(TensorId::q), &k = p_.tensor(TensorId::k),
                 &v = p_.tensor(TensorId::v);
    live_rows_.resize(static_cast<std::size_t>(q.batch * q.seq));
    rotated_rows_.resize(live_rows_.size(), in_.rows_q != CROSSFLASH_ROWS_OFFSETS);
    std::vector<bool> old(static_cast<std::size_t>(k.batch * k.seq));
    new_rows_.resize(old.size());
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const reference::SideRows queries = reference::query_rows(p_, inputs_, b);
      const reference::SideRows keys = reference::key_rows(p_, inputs_, b);
      for (std::int64_t i = 0; i < queries.count; ++i)
        live_rows_[at(queries.flat(i))] = rotated_rows_[at(queries.flat(i))] = true;
      for (std::int64_t j = 0; j < keys.count; ++j)
        (j < keys.count - queries.count ? old : new_rows_)[at(keys.flat(j))] = true;
      if (p_.pages.size > 0)  // nobody may look at entries past the length
        for (std::int64_t n = (keys.count + p_.pages.size - 1) / p_.pages.size;
             n < p_.pages.of_sequence; ++n)
          inputs_.page_table[at(b * p_.pages.of_sequence + n)] = 1 << 30;
    }
    inputs_.q = normal(q, live_rows_);
    inputs_.k = normal(k, old);
    inputs_.v = normal(v, old);
    inputs_.new_k = normal(p_.append.new_k, live_rows_);
    inputs_.new_v = normal(p_.append.new_v, live_rows_);
    const std::int64_t half = p_.append.rotary / 2;
    for (std::int64_t n = 0; n < half * p_.append.positions; ++n) {
      const double angle =
          static_cast<double>(n / half) *
          std::pow(10000.0, -static_cast<double>(n % half) / static_cast<double>(half));
      inputs_.cosine.push_back(static_cast<float>(std::cos(angle)));
      inputs_.sine.push_back(static_cast<float>(std::sin(angle)));
    }
  }

  static std::size_t at(std::int64_t n) { return static_cast<std::size_t>(n); }
  static std::vector<bool> of_rows(const Tensor& t, const std::vector<bool>& rows) {
    std::vector<bool> elements(count_of(t));
    const std::size_t row = at(t.heads * t.width);
    for (std::size_t n = 0; n < elements.size(); ++n) elements[n] = rows[n / row];
    return elements;
  }
  // Values of the type; NaN outside of these rows.
  std::vector<float> normal(const Tensor& t, const std::vector<bool>& rows) {
    std::normal_distribution<float> distribution;
    std::vector<float> values(count_of(t));
    const std::size_t row = at(t.heads * t.width);
    for (std::size_t n = 0; n < values.size(); ++n)
      values[n] = rows[n / row] ? round_to(t.dtype, distribution(random_)) : NAN;
    return values;
  }
  Buffer indices(const std::vector<std::int64_t>& rows) const {
    std::vector<std::int64_t> wide = rows;
    wide.push_back(-1);
    if (in_.row_bits == 64) return Buffer(device_, wide);
    return Buffer(device_, std::vector<std::int32_t>(wide.begin(), wide.end()));
  }

  // What is rotated is rounded three times in f32, at the size of the largest value, and then to
  // the type; all else is moved.
  static void judge(const char* name, const Tensor& t, const std::vector<float>& out,
                    const std::vector<double>& expected, const std::vector<bool>& rows,
                    std::int64_t rotary) {
    const double unit = t.dtype == CROSSFLASH_F32   ? 0x1p-24
                        : t.dtype == CROSSFLASH_F16 ? 0x1p-11
                                                    : 0x1p-8;
    const std::size_t width = at(t.width), row = at(t.heads * t.width);
    double largest = 0;
    for (std::size_t n = 0; n < out.size(); ++n)
      if (rows[n / row]) largest = std::max(largest, std::abs(expected[n]));
    for (std::size_t n = 0; n < out.size(); ++n) {
      if (!rows[n / row]) continue;
      const double allowed = static_cast<std::int64_t>(n % width) < rotary
                                 ? unit * std::abs(expected[n]) + 5 * 0x1p-24 * largest
                                 : 0.0;
      const double error = std::abs(static_cast<double>(out[n]) - expected[n]);
      ASSERT_TRUE(error <= allowed)
          << name << " " << coordinates(TensorId::k, t, n) << " is " << out[n] << "; "
          << expected[n] << " expected, off by " << error << " of " << allowed;
    }
  }

  void judge_forward(const reference::Inputs& after, std::vector<float> out) const {
    const Tensor& o = p_.tensor(TensorId::o);
    const reference::Outputs exact = reference::exact_attention(p_, after);
    const reference::Outputs plain = reference::plain_attention(p_, after);
    const std::size_t row = at(o.heads * o.width);
    for (std::size_t n = 0; n < out.size(); ++n)  // rows of no packed sequence are not written
      if (!rotated_rows_[n / row]) out[n] = static_cast<float>(exact.o[n]);
    const Judgement judged = judge_tensor(TensorId::o, o, out, exact.o, plain.o);
    EXPECT_EQ(judged.failure, "") << "o of the forward after it";
  }

  const Device& device_;
  const Setup setup_;
  const crossflash_problem in_;
  Problem p_{};
  reference::Inputs inputs_;
  // By flat row: those with a query, those of which rotated_q is written, and the cache's new ones.
  std::vector<bool> live_rows_, rotated_rows_, new_rows_;
  std::mt19937_64 random_{11};
};

void append_all_types(const Device& device, const Setup& setup) {
  for (const crossflash_dtype dtype : {CROSSFLASH_F32, CROSSFLASH_F16, CROSSFLASH_BF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    AppendRun(device, setup, dtype).run();
  }
}

template <const Setup& kSetup>
void append(const Device& device) {
  append_all_types(device, kSetup);
}

constexpr auto kNeighbours = CROSSFLASH_ROTARY_INTERLEAVED;
constexpr Setup kAsItIs{.rotary = 0};
constexpr Setup kHalves{};
constexpr Setup kInterleaved{.pairs = kNeighbours};
constexpr Setup kPart{.d = 96, .rotary = 32, .in_place = true};
constexpr Setup kPartInterleaved{.d = 96, .rotary = 32, .pairs = kNeighbours, .in_place = true};
constexpr Setup kOdd{.d = 37, .d_v = 19, .rotary = 10, .gaps = true};
constexpr Setup kOddInterleaved{
    .d = 37, .d_v = 19, .rotary = 14, .pairs = kNeighbours, .gaps = true, .in_place = true};
constexpr Setup kWhole{.rows_k = CROSSFLASH_ROWS_ALL, .heads_kv = 4};
constexpr Setup kPaged{.row_bits = 64, .page_size = 16};
constexpr Setup kPagedOdd{.rows_q = CROSSFLASH_ROWS_LENGTHS,
                          .page_size = 32,
                          .d = 40,
                          .d_v = 40,
                          .rotary = 20,
                          .pairs = kNeighbours,
                          .gaps = true};
constexpr Setup kPadded{.rows_q = CROSSFLASH_ROWS_LENGTHS, .row_bits = 64, .in_place = true};
constexpr Setup kPacked{.rows_q = CROSSFLASH_ROWS_OFFSETS, .page_size = 16, .heads_kv = 1};
constexpr Setup kBothPacked{.rows_q = CROSSFLASH_ROWS_OFFSETS,
                            .rows_k = CROSSFLASH_ROWS_OFFSETS,
                            .row_bits = 64,
                            .gaps = true};
constexpr Setup kLargeHeads{.d = 512, .d_v = 256, .rotary = 256};

constexpr Scenario kScenarios[] = {
    {"as_it_is", append<kAsItIs>},
    {"rotated_halves", append<kHalves>},
    {"rotated_neighbours", append<kInterleaved>},
    {"rotated_part_in_place", append<kPart>},
    {"rotated_part_of_neighbours_in_place", append<kPartInterleaved>},
    {"odd_strides", append<kOdd>},
    {"odd_strides_neighbours", append<kOddInterleaved>},
    {"no_lengths", append<kWhole>},
    {"pages", append<kPaged>},
    {"padded_queries_into_pages", append<kPagedOdd>},
    {"padded_queries_in_place", append<kPadded>},
    {"packed_queries_into_pages", append<kPacked>},
    {"packed_keys", append<kBothPacked>},
    {"large_heads", append<kLargeHeads>},
};

}  // namespace

std::span<const Scenario> append_scenarios() { return kScenarios; }

}  // namespace crossflash::conformance
