// SPDX-License-Identifier: MIT
// self_test.cpp: the suite judging itself: case lines survive the way there and back, bad words are
// named, and every fault that the judge or the guards must notice is put before them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "common/half.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/conformance.h"
#include "tests/conformance/execute.h"
#include "tests/conformance/fill.h"
#include "tests/conformance/memory.h"
#include "tests/conformance/sequences.h"

namespace crossflash::conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Case parsed(const std::string& line) {
  Case c;
  const Status status = parse_case(line, &c);
  EXPECT_TRUE(status.ok()) << status.text();
  return c;
}

TEST(CaseLine, EveryWordComesBack) {
  for (const char* line :
       {"batch=1",
        "batch=2 seq=33x65 heads=8/2 d=64 dv=32 type=f16 causal=bottom-right window=16,0",
        "scale=0.1 dropout=0.1 seed=18446744073709551615 offset=4294967295 data=7",
        "scale=-1e-30 layout=padded fill=ties passes=forward",
        "layout=packed fill=tiny passes=backward",
        "softcap=30 alibi dsink bias=bk mask=hqk dropout=0.5 device-seed",
        "type=f16 bias=q bias-type=f32", "dbias", "seq=33x65 rows=all/lengths row-bits=64 page=32",
        "rows=offsets lens=33x64,64x64,0x16,17x0", "rows=lengths lens=64,0x1 seq=64",
        "seq=70x64 batch=1 rows=offsets/all lens=12x5"}) {
    std::string formatted = format_case(parsed(line));
    EXPECT_EQ(format_case(parsed(formatted)), formatted);
  }
  EXPECT_EQ(format_case(parsed("dbias softcap=30 alibi sink mask=kq heads=8/2 rows=lengths")),
            "heads=8/2 softcap=30 bias=bhqk mask=qk rows=lengths alibi sink dbias");
  EXPECT_EQ(format_case(parsed("  dv=16\td=32  ")), "d=32 dv=16");
  EXPECT_EQ(parsed("d=40").problem.d_v, 40);
  EXPECT_EQ(parsed("dv=8 d=40").problem.d_v, 8);
}

TEST(CaseLine, SomeWordsFollowOthers) {
  const Case c = parsed("lens=33x64,64x70,0x16 rows=offsets heads=2 type=f16 bias=hk");
  EXPECT_EQ(c.problem.batch, 3);
  EXPECT_EQ(c.problem.seq_q, 64);
  EXPECT_EQ(c.problem.seq_k, 70);
  EXPECT_EQ(c.problem.bias_dtype, CROSSFLASH_F16);
  EXPECT_EQ(parsed("bias-type=f32 type=f16 dbias").problem.bias_dtype, CROSSFLASH_F32);
  EXPECT_EQ(parsed("seq=40x80 rows=offsets lens=33x64").problem.seq_k, 80);
}

TEST(CaseLine, RandomCasesComeBack) {
  std::mt19937_64 random(1);
  for (int n = 0; n < 2000; ++n) {
    const std::string line = format_case(random_case(random));
    ASSERT_EQ(format_case(parsed(line)), line);
  }
}

TEST(CaseLine, BadWordsAreNamed) {
  for (const char* word : {"sequence=4",
                           "seq",
                           "seq=",
                           "seq=4x",
                           "seq=4y5",
                           "heads=8/",
                           "d=1.5",
                           "type=f64",
                           "causal=yes",
                           "window=3",
                           "dropout=1e",
                           "seed=-1",
                           "layout=bhds",
                           "fill=zero",
                           "passes=3",
                           "alibi=1",
                           "=",
                           "batch=99999999999999999999",
                           "bias",
                           "bias=",
                           "bias=kk",
                           "bias=bx",
                           "mask=bhq",
                           "rows=some",
                           "rows=all/",
                           "lens=3x",
                           "lens=",
                           "lens=-1x4",
                           "lens=4,,5",
                           "page=x",
                           "row-bits=",
                           "device-seed=3",
                           "bias-type=f64"}) {
    Case c;
    const Status status = parse_case(fmt::format("batch=2 {} dv=7", word).c_str() + 8, &c);
    EXPECT_EQ(status.code(), CROSSFLASH_INVALID) << word;
    EXPECT_NE(status.text().find(fmt::format("\"{}\"", word)), std::string::npos) << status.text();
    EXPECT_EQ(status.text().find('\n'), std::string::npos);
  }
  Case c;
  EXPECT_FALSE(parse_case("d=4 d=4", &c).ok());
  EXPECT_FALSE(parse_case("sink sink", &c).ok());
  EXPECT_FALSE(parse_case("lens=5x9", &c).ok()) << "of which rows?";
  EXPECT_FALSE(parse_case("batch=2 rows=lengths lens=5x9", &c).ok());
  EXPECT_FALSE(parse_case("rows=offsets lens=5x9 seq=9 layout=packed", &c).ok());
  EXPECT_FALSE(parse_case("rows=offsets/all layout=packed", &c).ok());
  EXPECT_FALSE(parse_case("page=16 layout=packed", &c).ok());
  EXPECT_FALSE(parse_case("seq=5x9 layout=packed", &c).ok());
}

TEST(CaseLine, FilesHaveCommentsAndNumbers) {
  std::vector<Case> cases;
  ASSERT_TRUE(parse_cases("# all\n\nd=8 # odd\r\n  d=16", &cases).ok());
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[1].problem.d, 16);
  EXPECT_NE(parse_cases("d=8\n\nd=x\n", &cases).text().find("line 3"), std::string::npos);
}

// One row of three elements, as o.
std::string judged(std::vector<float> out, std::vector<double> exact, std::vector<double> plain,
                   crossflash_dtype dtype = CROSSFLASH_F32, TensorId id = TensorId::o) {
  const Tensor tensor{dtype, 1, 1, 1, 3, {3, 3, 3}};
  return judge_tensor(id, tensor, out, exact, plain).failure;
}

TEST(Judge, AcceptsTwiceThePlainErrorAndNoMore) {
  EXPECT_EQ(judged({1, 2, 3.019f}, {1, 2, 3}, {1, 2, 3.01}), "");
  EXPECT_NE(judged({1, 2, 3.021f}, {1, 2, 3}, {1, 2, 3.01}), "");
  EXPECT_EQ(judged({1, 2, 3.029f}, {1, 2, 3}, {1, 2, 3.01}, CROSSFLASH_F32, TensorId::grad_q), "");
  EXPECT_NE(judged({1, 2, 3.031f}, {1, 2, 3}, {1, 2, 3.01}, CROSSFLASH_F32, TensorId::grad_q), "");
}

TEST(Judge, AllowsTheTypesRoundingWithoutPlainError) {
  EXPECT_EQ(judged({1, 2, 3.000001f}, {1, 2, 3}, {1, 2, 3}), "");
  EXPECT_NE(judged({1, 2, 3.000002f}, {1, 2, 3}, {1, 2, 3}), "");
  EXPECT_EQ(judged({1, 2, 3 + 0x1p-10f}, {1, 2, 3}, {1, 2, 3}, CROSSFLASH_F16), "");
  EXPECT_NE(judged({1, 2, 3 + 0x1p-9f}, {1, 2, 3}, {1, 2, 3}, CROSSFLASH_F16), "");
  EXPECT_EQ(judged({1, 2, 3 + 0x1p-7f}, {1, 2, 3}, {1, 2, 3}, CROSSFLASH_BF16), "");
  EXPECT_NE(judged({1, 2, 3 + 0x1p-6f}, {1, 2, 3}, {1, 2, 3}, CROSSFLASH_BF16), "");
}

TEST(Judge, NoticesWhatIsNotFinite) {
  const auto nan = static_cast<float>(kNan), inf = static_cast<float>(kInf);
  EXPECT_NE(judged({nan, 2, 3}, {1, 2, 3}, {1, 2, 3}), "");
  EXPECT_NE(judged({1, inf, 3}, {1, 2, 3}, {1, 2, 3}), "");
  EXPECT_NE(judged({1, 2, -inf}, {1, 2, 3}, {1, 2, 3}), "");
  EXPECT_NE(judged({1, 2, -3.4e38f}, {1, 2, -kInf}, {1, 2, -kInf}), "") << "a finite stand-in";
  EXPECT_NE(judged({1, 2, inf}, {1, 2, -kInf}, {1, 2, -kInf}), "");
  EXPECT_NE(judged({1, 2, nan}, {1, 2, -kInf}, {1, 2, -kInf}), "");
  EXPECT_EQ(judged({1, 2, -inf}, {1, 2, -kInf}, {1, 2, -kInf}), "");
  // A plain computation that overflows must not make everything right.
  EXPECT_NE(judged({1, 2, 9}, {1, 2, 3}, {1, kInf, kNan}), "");
  EXPECT_NE(judged({1, 2}, {1, 2, 3}, {1, 2, 3}), "") << "an element is missing";
}

TEST(Judge, SaysWhere) {
  const Tensor keys{CROSSFLASH_F32, 2, 3, 4, 5, {60, 20, 5}};
  EXPECT_EQ(coordinates(TensorId::grad_k, keys, 1 * 60 + 2 * 20 + 3 * 5 + 4),
            "(batch 1, key 2, head 3, element 4)");
  const Tensor lse{CROSSFLASH_F32, 2, 4, 3, 1, {12, 3, 1}};
  EXPECT_EQ(coordinates(TensorId::lse, lse, 1 * 12 + 2 * 3 + 1), "(batch 1, head 2, query 1)");
}

TEST(Memory, NoticesEveryForeignElement) {
  for (const Layout layout : {Layout::bshd, Layout::bhsd, Layout::packed_qkv, Layout::padded})
    for (const char* type : {"f32", "f16", "bf16"}) {
      Case c = parsed(fmt::format("batch=2 seq=3 heads=4/2 d=5 dv=3 type={}", type));
      c.layout = layout;
      Execution e;
      ASSERT_TRUE(make_execution(c, &e).ok());
      const Place& k = e.arrangement.place(TensorId::grad_k);
      Block block(c.problem.dtype, e.arrangement.extents[k.block], e.arrangement.guard,
                  Role::output, 0);
      block.poison(k.view);
      std::size_t own = 0;
      for (std::size_t n = 0; n < block.bytes().size(); ++n) {
        Block now = block;
        now.bytes()[n] ^= std::byte{1};
        own += now.damage(block).empty() ? 1u : 0u;
      }
      EXPECT_EQ(own, k.view.count() * dtype_size(c.problem.dtype)) << format_case(c);
    }
}

TEST(Memory, TensorsOfABlockDoNotOverlap) {
  for (const Layout layout : {Layout::bshd, Layout::bhsd, Layout::packed_qkv, Layout::padded}) {
    Case c = parsed("batch=2 seq=3 heads=4/2 d=5 dv=7");
    c.layout = layout;
    Execution e;
    ASSERT_TRUE(make_execution(c, &e).ok());
    std::vector<Block> blocks;
    for (const std::int64_t extent : e.arrangement.extents)
      blocks.emplace_back(CROSSFLASH_F32, extent, e.arrangement.guard, Role::input, 0.0f);
    const auto count = [](const View& view, float value) {
      return std::vector<float>(view.count(), value);
    };
    float value = 1;
    for (const Place& place : e.arrangement.places)
      blocks[place.block].write(place.view, count(place.view, value++));
    value = 1;
    for (const Place& place : e.arrangement.places)
      EXPECT_EQ(blocks[place.block].read(place.view), count(place.view, value++));
  }
}

TEST(Fill, IsOfTheTypeAndRepeats) {
  for (const char* type : {"f32", "f16", "bf16"})
    for (const char* fill : {"normal", "large", "ties", "tiny"}) {
      const Case c = parsed(fmt::format("seq=50 heads=2 d=32 type={} fill={}", type, fill));
      Execution a, b;
      ASSERT_TRUE(make_execution(c, &a).ok() && make_execution(c, &b).ok());
      EXPECT_EQ(a.inputs.q, b.inputs.q);
      EXPECT_NE(a.inputs.q, a.inputs.k);
      double sum = 0, squares = 0;
      for (const float x : a.inputs.q) {
        ASSERT_EQ(x, round_to(c.problem.dtype, x));
        ASSERT_TRUE(std::isfinite(x));
        sum += x;
        squares += static_cast<double>(x) * static_cast<double>(x);
      }
      EXPECT_GT(squares, 0) << type << fill;
      const auto n = static_cast<double>(a.inputs.q.size());
      EXPECT_LT(std::abs(sum / n), 0.1 * std::sqrt(squares / n) + 0x1p-149) << type << fill;
    }
}

Execution execution_of(const std::string& line) {
  Execution e;
  const Status status = make_execution(parsed(line), &e);
  EXPECT_TRUE(status.ok()) << status.text();
  return e;
}

TEST(Judge, JudgesGradientsOfOptions) {
  const Execution e = execution_of("batch=2 seq=3x5 heads=4 bias=hk dbias dsink");
  Problem p;
  ASSERT_TRUE(check_problem(e.problem, &p).ok());
  std::vector<double> exact(4 * 5, 1.0), plain(4 * 5, 1.01);
  std::vector<float> out(4 * 5, 1.0f);
  EXPECT_EQ(judge_option(OptionId::grad_bias, p, out, exact, plain).failure, "");
  out[2 * 5 + 3] = 1.031f;
  const std::string failure = judge_option(OptionId::grad_bias, p, out, exact, plain).failure;
  EXPECT_NE(failure.find("grad_bias (head 2, key 3)"), std::string::npos) << failure;
  out[2 * 5 + 3] = 1.029f;
  EXPECT_EQ(judge_option(OptionId::grad_bias, p, out, exact, plain).failure, "");
  const std::vector<double> ones(4, 1.0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(judge_option(OptionId::grad_sink, p, std::vector{1.0f, 1.0f, nan, 1.0f}, ones, ones)
                .failure.find("grad_sink (head 2)"),
            std::string::npos);
}

TEST(Memory, PackedRowsOfNobodyAreNotTheOutputs) {
  const Execution e = execution_of("lens=3x2,0x4,1x1 rows=offsets heads=2/1 d=5 layout=padded");
  Problem p;
  ASSERT_TRUE(check_problem(e.problem, &p).ok());
  const std::vector<bool> used = in_sequences(p, e.inputs, TensorId::grad_q);
  const Place& place = e.arrangement.place(TensorId::grad_q);
  Block block(CROSSFLASH_F32, e.arrangement.extents[place.block], e.arrangement.guard, Role::output,
              0);
  block.poison(place.view, used);
  std::size_t own = 0;
  for (std::size_t n = 0; n < block.bytes().size(); ++n) {
    Block now = block;
    now.bytes()[n] ^= std::byte{1};
    own += now.damage(block).empty() ? 1u : 0u;
  }
  EXPECT_EQ(own, 4 * 2 * 5 * sizeof(float));
}

TEST(Memory, OptionsLieBetweenGuards) {
  const std::vector<std::byte> contents(3 * 8, std::byte{7});
  const Block block(8, contents, 33);
  EXPECT_EQ(block.offset(), 33u * 8);
  EXPECT_EQ(block.bytes().size(), (3u + 2 * 33) * 8);
  for (std::size_t n = 0; n < block.bytes().size(); ++n) {
    Block now = block;
    now.bytes()[n] ^= std::byte{1};
    EXPECT_NE(now.damage(block), "") << n;
  }
}

TEST(Fill, RowsOfNobodyHoldNan) {
  for (const char* line : {"lens=3x2,0x4,7x9 rows=offsets heads=2/1 d=5",
                           "lens=3x2,0x4,7x9 rows=lengths heads=2/1 d=5",
                           "lens=3x2,0x4,7x40 rows=all/lengths page=16 passes=forward",
                           "seq=5 lens=3x2,9x4,7x9 rows=offsets heads=2/1 d=5"}) {
    const Execution e = execution_of(line);
    Problem p;
    ASSERT_TRUE(check_problem(e.problem, &p).ok());
    std::size_t unused = 0;
    for (const auto& [id, values] :
         {std::pair{TensorId::q, &e.inputs.q}, std::pair{TensorId::k, &e.inputs.k},
          std::pair{TensorId::v, &e.inputs.v}, std::pair{TensorId::grad_o, &e.inputs.grad_o}}) {
      const std::vector<bool> used = in_sequences(p, e.inputs, id);
      for (std::size_t n = 0; n < values->size(); ++n)
        ASSERT_EQ(std::isnan((*values)[n]), !used.empty() && !used[n]) << line;
      unused += static_cast<std::size_t>(std::count(used.begin(), used.end(), false));
    }
    EXPECT_GT(unused, 0u) << line;
    const reference::Outputs out = reference::exact_attention(p, e.inputs);
    for (const double x : out.o) ASSERT_TRUE(std::isfinite(x)) << line;
  }
}

TEST(Fill, OptionsHoldWhatTheyMust) {
  const Execution e = execution_of(
      "lens=70x100,30x0,64x90 rows=lengths heads=4/1 d=8 fill=ties layout=padded bias=bhqk dbias "
      "mask=hqk alibi dsink");
  Problem p;
  ASSERT_TRUE(check_problem(e.problem, &p).ok());
  const auto& bias = e.inputs.bias;
  const auto count = [&bias](const auto& is) {
    return std::count_if(bias.begin(), bias.end(), [&](float x) { return is(x); });
  };
  const auto own = static_cast<std::ptrdiff_t>(4 * (70 * 100 + 64 * 90));
  EXPECT_EQ(count([](float x) { return !std::isnan(x); }), own) << "padding and gaps hold NaN";
  EXPECT_GT(count([](float x) { return x == -std::numeric_limits<float>::infinity(); }), own / 16);
  EXPECT_NE(p.bias.strides.seq_q % 2, 0) << "rows start anywhere";
  EXPECT_EQ(e.inputs.sink[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(e.inputs.alibi, (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  const auto empty = std::count(e.inputs.mask.begin(), e.inputs.mask.end(), 0u);
  EXPECT_GT(empty, std::ssize(e.inputs.mask) / 16);
  EXPECT_LT(empty, std::ssize(e.inputs.mask) / 2);
}

TEST(Fill, PagesAreInNoOrderAndTheRestPointsNowhere) {
  const Execution e = execution_of("lens=1x100,1x16,1x0 rows=all/lengths page=16 passes=forward");
  Problem p;
  ASSERT_TRUE(check_problem(e.problem, &p).ok());
  ASSERT_EQ(e.inputs.page_table.size(), 3u * 7);
  std::vector<std::int32_t> used(e.inputs.page_table.begin(), e.inputs.page_table.begin() + 8);
  EXPECT_FALSE(std::is_sorted(used.begin(), used.end()));
  std::sort(used.begin(), used.end());
  EXPECT_EQ(std::unique(used.begin(), used.end()), used.end());
  EXPECT_LT(used.back(), p.pages.count);
  for (std::size_t n = 8; n < 3 * 7; ++n) {
    const std::int32_t page = e.inputs.page_table[n];
    EXPECT_TRUE(page < 0 || page >= p.pages.count) << n;
  }
}

TEST(Random, DrawsEverything) {
  std::mt19937_64 random(3);
  std::map<std::string, int> count;
  constexpr int kDraws = 2000;
  for (int n = 0; n < kDraws; ++n) {
    const Case c = random_case(random);
    const crossflash_problem& p = c.problem;
    count["packed"] += c.layout == Layout::packed_qkv;
    count["empty"] += p.batch == 0 || p.seq_q == 0 || p.seq_k == 0;
    count["wide"] += p.d > 256;
    count["odd"] += p.d % 2 == 1 && p.dtype != CROSSFLASH_F32;
    count["dropped"] += p.dropout > 0;
    count["blind"] += p.causal == CROSSFLASH_CAUSAL_BOTTOM_RIGHT && p.seq_q > p.seq_k;
    count["device seed"] += p.random_on_device;
    count["softcap"] += p.softcap > 0;
    count["alibi"] += p.alibi;
    count["sink"] += p.sink == CROSSFLASH_GIVEN;
    count["sink's gradient"] += p.sink == CROSSFLASH_WITH_GRADIENT && p.passes != 1;
    count["bias"] += p.bias == CROSSFLASH_GIVEN;
    count["bias' gradient"] += p.bias == CROSSFLASH_WITH_GRADIENT && p.passes != 1;
    count["shared bias' gradient"] +=
        p.bias == CROSSFLASH_WITH_GRADIENT && p.passes != 1 && !c.bias_axes.all();
    count["mask"] += p.mask;
    count["lengths"] += p.rows_k == CROSSFLASH_ROWS_LENGTHS;
    count["offsets"] += p.rows_q == CROSSFLASH_ROWS_OFFSETS;
    count["wide offsets"] += has_lengths(p) && p.row_bits == 64;
    count["mixed rows"] += p.rows_q != p.rows_k;
    count["packed in one buffer"] +=
        p.rows_q == CROSSFLASH_ROWS_OFFSETS && c.layout == Layout::packed_qkv;
    count["pages"] += p.page_size > 0;
    const bool plain = p.softcap == 0 && p.alibi == 0 && p.sink == 0 && p.bias == 0 &&
                       p.mask == 0 && !has_lengths(p) && p.page_size == 0;
    count["plain"] += plain && n % 20 == 0;  // so that the same least number will do
    Problem checked;
    Execution e;
    ASSERT_TRUE(make_execution(c, &e).ok()) << format_case(c);
    ASSERT_TRUE(check_problem(e.problem, &checked).ok()) << format_case(c);
    ASSERT_LE(checked.product_flops(p.d + p.d_v), 80e6) << format_case(c);
  }
  for (const auto& [name, times] : count) EXPECT_GT(times, kDraws / 100) << name;
}

}  // namespace
}  // namespace crossflash::conformance
