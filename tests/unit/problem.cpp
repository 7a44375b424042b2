// SPDX-License-Identifier: MIT
// What check_problem refuses, with which code, and that the sentence names the field and the value;
// and what it makes of what it accepts.
#include "common/problem.h"

#include <cstring>
#include <functional>
#include <string>

#include "tests/unit/support.h"

namespace crossflash {
namespace {

using testing::checked;
using testing::problem_of;

crossflash_problem valid() { return problem_of(2, 5, 7, 4, 2, 8, 16); }

struct Refusal {
  const char* field;
  const char* value;  // as the sentence prints it
  crossflash_status code;
  std::function<void(crossflash_problem&)> spoil;
};

constexpr auto kInvalid = CROSSFLASH_INVALID;
constexpr auto kUnsupported = CROSSFLASH_UNSUPPORTED;
using P = crossflash_problem;

const Refusal kRefusals[] = {
    {"struct_size", "8", kInvalid, [](P& p) { p.struct_size = 8; }},
    {"passes", "0", kInvalid, [](P& p) { p.passes = 0; }},
    {"passes", "8", kInvalid, [](P& p) { p.passes = 8; }},
    {"passes", "6", kUnsupported, [](P& p) { p.passes = CROSSFLASH_APPEND | CROSSFLASH_BACKWARD; }},
    {"dtype", "3", kInvalid, [](P& p) { p.dtype = static_cast<crossflash_dtype>(3); }},
    {"causal", "3", kInvalid, [](P& p) { p.causal = static_cast<crossflash_causal>(3); }},
    {"batch", "-1", kInvalid, [](P& p) { p.batch = -1; }},
    {"batch", "2147483648", kUnsupported, [](P& p) { p.batch = 2147483648; }},
    {"seq_q", "-2", kInvalid, [](P& p) { p.seq_q = -2; }},
    {"seq_q", "536870913", kUnsupported, [](P& p) { p.seq_q = 536870913; }},
    {"seq_k", "-3", kInvalid, [](P& p) { p.seq_k = -3; }},
    {"seq_k", "536870913", kUnsupported, [](P& p) { p.seq_k = 536870913; }},
    {"heads_q", "0", kInvalid, [](P& p) { p.heads_q = 0; }},
    {"heads_q", "2147483648", kUnsupported, [](P& p) { p.heads_q = 2147483648; }},
    {"heads_kv", "0", kInvalid, [](P& p) { p.heads_kv = 0; }},
    {"heads_q", "4", kInvalid, [](P& p) { p.heads_kv = 3; }},
    {"heads_q", "2", kInvalid, [](P& p) { p.heads_q = 2, p.heads_kv = 4; }},
    {"batch * heads_q", "4294967296", kUnsupported,
     [](P& p) { p.batch = 65536, p.heads_q = p.heads_kv = 65536; }},
    {"d", "0", kInvalid, [](P& p) { p.d = 0; }},
    {"d", "513", kUnsupported, [](P& p) { p.d = 513; }},
    {"d_v", "-1", kInvalid, [](P& p) { p.d_v = -1; }},
    {"d_v", "1024", kUnsupported, [](P& p) { p.d_v = 1024; }},
    {"q.dim", "2", kInvalid,
     [](P& p) {
       p.q = {1000, 100, 10, 2};
     }},
    {"k.dim", "0", kInvalid,
     [](P& p) {
       p.k = {1000, 100, 10, 0};
     }},
    {"v.batch", "0", kInvalid,
     [](P& p) {
       p.v = {0, 100, 20, 1};
     }},
    {"o.seq", "-5", kInvalid,
     [](P& p) {
       p.o = {1000, -5, 20, 1};
     }},
    {"q.head", "0", kInvalid,
     [](P& p) {
       p.q = {1000, 100, 0, 1};
     }},
    {"k.batch", "-7", kInvalid,
     [](P& p) {
       p.batch = 1, p.k = {-7, 100, 20, 1};
     }},
    {"grad_o.seq", "0", kInvalid,
     [](P& p) {
       p.grad_o = {1000, 0, 20, 1};
     }},
    {"grad_q.head", "0", kInvalid,
     [](P& p) {
       p.grad_q = {1000, 100, 0, 1};
     }},
    {"grad_k.dim", "3", kInvalid,
     [](P& p) {
       p.grad_k = {1000, 100, 10, 3};
     }},
    {"grad_v.batch", "0", kInvalid,
     [](P& p) {
       p.grad_v = {0, 100, 20, 1};
     }},
    {"q.batch", "1152921504606846976", kUnsupported,
     [](P& p) {
       p.q = {std::int64_t{1} << 60, 100, 20, 1};
     }},
    {"q", "2 x 536870912 x 1073741823 x 512", kUnsupported,
     [](P& p) { p.seq_q = 1 << 29, p.heads_q = p.heads_kv = (1 << 30) - 1, p.d = 512; }},
    {"window_left", "-2", kInvalid, [](P& p) { p.window_left = -2; }},
    {"window_right", "-9", kInvalid, [](P& p) { p.window_right = -9; }},
    {"scale", "inf", kInvalid, [](P& p) { p.scale = INFINITY; }},
    {"dropout", "1", kInvalid, [](P& p) { p.dropout = 1; }},
    {"dropout", "-0.5", kInvalid, [](P& p) { p.dropout = -0.5f; }},
    {"dropout", "nan", kInvalid, [](P& p) { p.dropout = NAN; }},
    {"softcap", "-1", kInvalid, [](P& p) { p.softcap = -1; }},
    {"softcap", "nan", kInvalid, [](P& p) { p.softcap = NAN; }},
    {"softcap", "inf", kInvalid, [](P& p) { p.softcap = INFINITY; }},
    {"alibi", "2", kInvalid, [](P& p) { p.alibi = 2; }},
    {"sink", "3", kInvalid, [](P& p) { p.sink = static_cast<crossflash_given>(3); }},
    {"bias", "3", kInvalid, [](P& p) { p.bias = static_cast<crossflash_given>(3); }},
    {"bias_dtype", "1", kInvalid,
     [](P& p) { p.bias = CROSSFLASH_GIVEN, p.bias_dtype = CROSSFLASH_F16; }},
    {"bias_strides.head", "-1", kInvalid,
     [](P& p) {
       p.bias = CROSSFLASH_GIVEN;
       p.bias_strides = {0, -1, 7, 1};
     }},
    {"bias_strides.seq_k", "2", kInvalid,
     [](P& p) {
       p.bias = CROSSFLASH_GIVEN;
       p.bias_strides = {0, 0, 14, 2};
     }},
    {"bias_strides.seq_q", "1152921504606846976", kUnsupported,
     [](P& p) {
       p.bias = CROSSFLASH_GIVEN;
       p.bias_strides = {0, 0, std::int64_t{1} << 60, 1};
     }},
    {"mask", "-1", kInvalid, [](P& p) { p.mask = -1; }},
    {"mask_strides.seq_k", "0", kInvalid,
     [](P& p) {
       p.mask = 1;
       p.mask_strides = {0, 0, 1, 0};
     }},
    {"rows_q", "3", kInvalid, [](P& p) { p.rows_q = static_cast<crossflash_rows>(3); }},
    {"rows_k", "3", kInvalid, [](P& p) { p.rows_k = static_cast<crossflash_rows>(3); }},
    {"row_bits", "16", kInvalid, [](P& p) { p.row_bits = 16; }},
    {"total_q", "-1", kInvalid, [](P& p) { p.rows_q = CROSSFLASH_ROWS_OFFSETS, p.total_q = -1; }},
    {"total_k", "2147483648", kUnsupported,
     [](P& p) { p.rows_k = CROSSFLASH_ROWS_OFFSETS, p.total_k = 2147483648; }},
    {"page_size", "24", kInvalid,
     [](P& p) { p.page_size = 24, p.pages = 9, p.passes = CROSSFLASH_FORWARD; }},
    {"page_size", "-16", kInvalid,
     [](P& p) { p.page_size = -16, p.pages = 9, p.passes = CROSSFLASH_FORWARD; }},
    {"page_size", "16", kUnsupported, [](P& p) { p.page_size = 16, p.pages = 9; }},
    {"rows_k", "2", kInvalid,
     [](P& p) {
       p.page_size = 16, p.pages = 9, p.passes = CROSSFLASH_FORWARD;
       p.rows_k = CROSSFLASH_ROWS_OFFSETS;
     }},
    {"pages", "0", kInvalid, [](P& p) { p.page_size = 16, p.passes = CROSSFLASH_FORWARD; }},
    {"random_on_device", "2", kInvalid, [](P& p) { p.random_on_device = 2; }},
    {"deterministic", "2", kInvalid, [](P& p) { p.deterministic = 2; }},
    {"rotary", "4", kInvalid, [](P& p) { p.rotary = 4; }},
    {"rotary", "3", kInvalid, [](P& p) { p.passes = CROSSFLASH_APPEND, p.rotary = 3; }},
    {"rotary", "-2", kInvalid, [](P& p) { p.passes = CROSSFLASH_APPEND, p.rotary = -2; }},
    {"rotary", "10", kInvalid, [](P& p) { p.passes = CROSSFLASH_APPEND, p.rotary = 10; }},
    {"rotary_pairs", "2", kInvalid,
     [](P& p) {
       const unsigned two = 2;  // which the type has no room for
       std::memcpy(&p.rotary_pairs, &two, sizeof two);
     }},
    {"positions", "0", kInvalid, [](P& p) { p.passes = CROSSFLASH_APPEND, p.rotary = 8; }},
    {"positions", "2147483648", kUnsupported,
     [](P& p) { p.passes = CROSSFLASH_APPEND, p.rotary = 8, p.positions = 2147483648; }},
    {"new_k.dim", "2", kInvalid,
     [](P& p) {
       p.passes = CROSSFLASH_APPEND, p.new_k = {1000, 100, 10, 2};
     }},
    {"new_v.seq", "-1", kInvalid,
     [](P& p) {
       p.passes = CROSSFLASH_APPEND, p.new_v = {1000, -1, 20, 1};
     }},
    {"rotated_q.head", "0", kInvalid,
     [](P& p) {
       p.passes = CROSSFLASH_APPEND, p.rotary = 8, p.positions = 4;
       p.rotated_q = {1000, 100, 0, 1};
     }},
};

TEST(Problem, RefusalsNameTheFieldAndTheValue) {
  for (const Refusal& refusal : kRefusals) {
    crossflash_problem in = valid();
    refusal.spoil(in);
    Problem out;
    const Status status = check_problem(in, &out);
    EXPECT_EQ(status.code(), refusal.code) << refusal.field << " " << refusal.value;
    const std::string begin = fmt::format("{} is {};", refusal.field, refusal.value);
    EXPECT_TRUE(status.text().starts_with(begin)) << begin << " expected, got: " << status.text();
  }
}

TEST(Problem, StridesOfGradientsAreReadOnlyForBackward) {
  crossflash_problem in = valid();
  in.grad_k = {1000, 100, 10, 3};
  in.passes = CROSSFLASH_FORWARD;
  Problem out;
  EXPECT_TRUE(check_problem(in, &out).ok());
}

TEST(Problem, AxesOfOneElementMayHaveAnyStrideThatIsNotNegative) {
  crossflash_problem in = problem_of(1, 1, 1, 1, 1, 8, 8);
  in.q = in.k = in.v = in.o = {0, 0, 0, 1};
  EXPECT_EQ(checked(in).tensor(TensorId::q).extent(), 8);
}

TEST(Problem, EmptyExtentsAreAccepted) {
  for (auto field : {&P::batch, &P::seq_q, &P::seq_k}) {
    crossflash_problem in = valid();
    in.*field = 0;
    Problem out;
    EXPECT_TRUE(check_problem(in, &out).ok());
  }
}

TEST(Problem, DefaultsAreResolved) {
  const Problem p = checked(valid());
  EXPECT_FLOAT_EQ(p.score.scale, 1 / std::sqrt(8.0f));
  EXPECT_EQ(p.group(), 2);
  EXPECT_EQ(p.drop_threshold, 0u);
  EXPECT_EQ(p.score.features, 0u);
  const Tensor& k = p.tensor(TensorId::k);
  EXPECT_EQ(k.strides.batch, 7 * 2 * 8);
  EXPECT_EQ(k.strides.seq, 2 * 8);
  EXPECT_EQ(k.strides.head, 8);
  EXPECT_EQ(k.extent(), 2 * 7 * 2 * 8);
  const Tensor& lse = p.tensor(TensorId::lse);
  EXPECT_EQ(lse.dtype, CROSSFLASH_F32);
  EXPECT_EQ(lse.strides.head, 5);
  EXPECT_EQ(lse.extent(), 2 * 4 * 5);
}

TEST(Problem, GivenValuesAreKept) {
  crossflash_problem in = valid();
  in.scale = -0.5f;
  in.dropout = 0.25f;
  in.o = {4096, 512, 64, 1};
  const Problem p = checked(in);
  EXPECT_EQ(p.score.scale, -0.5f);
  EXPECT_EQ(p.drop_threshold, 16384u);
  EXPECT_FLOAT_EQ(p.score.keep_scale, 4.0f / 3);
  EXPECT_EQ(p.score.features, shared::CF_DROPOUT);
  EXPECT_EQ(p.tensor(TensorId::o).extent(), 4096 + 4 * 512 + 3 * 64 + 16);
}

TEST(Problem, ABiasMayBeSharedAlongAxes) {
  crossflash_problem in = valid();
  in.bias = CROSSFLASH_WITH_GRADIENT;
  Problem p = checked(in);
  EXPECT_EQ(p.score.features, shared::CF_BIAS);
  EXPECT_EQ(p.bias.strides.batch, 4 * 5 * 7) << "contiguous unless said";
  EXPECT_EQ(p.option_extent(OptionId::bias), 2 * 4 * 5 * 7);
  EXPECT_EQ(p.option_extent(OptionId::grad_bias), 2 * 4 * 5 * 7);
  in.bias_strides = {0, 100, 0, 1};  // heads and keys, with gaps
  p = checked(in);
  EXPECT_EQ(p.option_extent(OptionId::bias), 3 * 100 + 7);
  EXPECT_EQ(p.option_extent(OptionId::grad_bias), 4 * 7) << "contiguous";
  EXPECT_EQ(p.bias.grad_strides.head, 7);
  EXPECT_EQ(p.bias.grad_strides.batch, 0);
  EXPECT_EQ(p.bias.grad_strides.seq_q, 0);
  EXPECT_EQ(p.option_element(OptionId::grad_bias), 4u);
  in.dtype = in.bias_dtype = CROSSFLASH_BF16;
  EXPECT_EQ(checked(in).option_element(OptionId::bias), 2u);
  in.passes = CROSSFLASH_FORWARD;
  EXPECT_FALSE(checked(in).bias.gradient);
  EXPECT_EQ(checked(in).option_extent(OptionId::grad_bias), 0);
}

TEST(Problem, AMaskHasRowsOfWords) {
  crossflash_problem in = valid();
  in.seq_k = 65;
  in.mask = 1;
  Problem p = checked(in);
  EXPECT_EQ(p.option_extent(OptionId::mask), 2 * 4 * 5 * 3);
  EXPECT_EQ(p.mask.strides.seq_q, 3);
  in.mask_strides = {5, 0, 0, 1};
  EXPECT_EQ(checked(in).option_extent(OptionId::mask), 5 + 3);
}

TEST(Problem, PackedTensorsHaveOneBatchOfAllRows) {
  crossflash_problem in = valid();
  in.rows_q = CROSSFLASH_ROWS_OFFSETS;
  in.total_q = 30;
  in.rows_k = CROSSFLASH_ROWS_LENGTHS;
  in.row_bits = 64;
  const Problem p = checked(in);
  EXPECT_EQ(p.tensor(TensorId::q).batch, 1);
  EXPECT_EQ(p.tensor(TensorId::q).seq, 30);
  EXPECT_EQ(p.tensor(TensorId::grad_q).extent(), 30 * 4 * 8);
  EXPECT_EQ(p.tensor(TensorId::lse).strides.head, 30);
  EXPECT_EQ(p.tensor(TensorId::k).batch, 2);
  EXPECT_EQ(p.option_extent(OptionId::rows_q), 3);
  EXPECT_EQ(p.option_extent(OptionId::rows_k), 2);
  EXPECT_EQ(p.option_element(OptionId::rows_q), 8u);
}

TEST(Problem, PagesAreABatchOfTheirOwn) {
  crossflash_problem in = valid();
  in.passes = CROSSFLASH_FORWARD;
  in.seq_k = 33;
  in.page_size = 16;
  in.pages = 11;
  const Problem p = checked(in);
  EXPECT_EQ(p.tensor(TensorId::k).batch, 11);
  EXPECT_EQ(p.tensor(TensorId::k).seq, 16);
  EXPECT_EQ(p.pages.of_sequence, 3);
  EXPECT_EQ(p.option_extent(OptionId::page_table), 2 * 3);
}

TEST(Problem, ARandomStateOnTheDeviceIsNotInTheArguments) {
  crossflash_problem in = valid();
  in.random_on_device = 1;
  EXPECT_EQ(checked(in).option_extent(OptionId::random), 0) << "nothing is drawn";
  in.dropout = 0.1f;
  EXPECT_EQ(checked(in).option_extent(OptionId::random), 2);
  shared::cf_dropout state{};
  EXPECT_TRUE(check_random_state(checked(in), 0, 0, &state).ok());
  for (const auto& [seed, offset] : {std::pair{1, 0}, std::pair{0, 1}})
    EXPECT_EQ(check_random_state(checked(in), static_cast<std::uint64_t>(seed),
                                 static_cast<std::uint64_t>(offset), &state)
                  .code(),
              CROSSFLASH_INVALID);
}

TEST(Problem, ABackendWithoutOptionsRefusesEachByName) {
  const std::pair<const char*, void (*)(P&)> options[] = {
      {"softcap", [](P& p) { p.softcap = 30; }},
      {"alibi", [](P& p) { p.alibi = 1; }},
      {"sink", [](P& p) { p.sink = CROSSFLASH_GIVEN; }},
      {"bias", [](P& p) { p.bias = CROSSFLASH_GIVEN; }},
      {"mask", [](P& p) { p.mask = 1; }},
      {"rows_q", [](P& p) { p.rows_q = CROSSFLASH_ROWS_LENGTHS; }},
      {"rows_k", [](P& p) { p.rows_k = CROSSFLASH_ROWS_OFFSETS; }},
      {"page_size", [](P& p) { p.page_size = 16, p.pages = 1; }},
      {"random_on_device", [](P& p) { p.random_on_device = 1, p.dropout = 0.5f; }}};
  for (const auto& [name, ask] : options) {
    crossflash_problem in = valid();
    in.passes = CROSSFLASH_FORWARD;
    EXPECT_TRUE(refuse_options(checked(in), "abacus").ok());
    ask(in);
    const Status status = refuse_options(checked(in), "abacus");
    EXPECT_EQ(status.code(), CROSSFLASH_UNSUPPORTED) << name;
    EXPECT_TRUE(status.text().starts_with(name)) << status.text();
    EXPECT_NE(status.text().find("abacus"), std::string::npos) << status.text();
  }
}

TEST(Problem, ARandomStateMustFit) {
  crossflash_problem in = valid();
  in.dropout = 0.1f;
  shared::cf_dropout state{};
  const Status refused = check_random_state(checked(in), 1, std::uint64_t{1} << 32, &state);
  EXPECT_EQ(refused.code(), CROSSFLASH_UNSUPPORTED);
  EXPECT_TRUE(refused.text().starts_with("offset is 4294967296;")) << refused.text();
  EXPECT_TRUE(check_random_state(checked(in), ~std::uint64_t{0}, 0xffffffffu, &state).ok());
  EXPECT_EQ(state.seed_lo, 0xffffffffu);
  EXPECT_EQ(state.seed_hi, 0xffffffffu);
  EXPECT_EQ(state.offset, 0xffffffffu);
}

}  // namespace
}  // namespace crossflash
