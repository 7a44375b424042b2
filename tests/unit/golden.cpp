// SPDX-License-Identifier: MIT
// exact_attention against PyTorch's autograd in float64, from a file that scripts/make_golden.py
// wrote: a witness that shares no line with this library, visibility and dropout included.
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/unit/support.h"

namespace crossflash {
namespace {

using nlohmann::json;
using testing::checked;
using testing::max_error;

constexpr std::size_t kCases = 31;  // as many as make_golden.py lists

// Strides of the tensor [batch, heads_q, seq_q, row] with 1 in the place of axes that are not
// there.
crossflash_score_strides strides_of(const std::string& axes, const crossflash_problem& p,
                                    std::int64_t row) {
  std::int64_t size = 1;
  const auto axis = [&](char letter, std::int64_t extent) {
    return axes.find(letter) == std::string::npos ? 0 : std::exchange(size, size * extent);
  };
  crossflash_score_strides s{};
  s.seq_k = axis('k', row);
  s.seq_q = axis('q', p.seq_q);
  s.head = axis('h', p.heads_q);
  s.batch = axis('b', p.batch);
  return s;
}

crossflash_problem problem_from(const json& c) {
  crossflash_problem p =
      testing::problem_of(c.at("batch"), c.at("seq_q"), c.at("seq_k"), c.at("heads_q"),
                          c.at("heads_kv"), c.at("d"), c.at("d_v"));
  p.causal = static_cast<crossflash_causal>(c.at("causal").get<int>());
  p.window_left = c.at("window_left");
  p.window_right = c.at("window_right");
  p.dropout = c.at("dropout");
  if (!c.at("scale").is_null()) p.scale = c.at("scale");
  p.softcap = c.at("softcap");
  p.alibi = c.at("alibi").get<bool>() ? 1 : 0;
  if (c.at("sink").get<bool>()) p.sink = CROSSFLASH_WITH_GRADIENT;
  if (const std::string axes = c.at("bias"); !axes.empty()) {
    p.bias = CROSSFLASH_WITH_GRADIENT;
    p.bias_strides = strides_of(axes, p, p.seq_k);
  }
  if (const std::string axes = c.at("mask"); !axes.empty()) {
    p.mask = 1;
    p.mask_strides = strides_of(axes, p, (p.seq_k + 31) / 32);
  }
  p.rows_q = p.rows_k = static_cast<crossflash_rows>(c.at("rows").get<int>());
  return p;
}

std::vector<float> floats(const json& numbers) {
  std::vector<float> values;
  for (const json& x : numbers) values.push_back(x.is_null() ? -INFINITY : x.get<float>());
  return values;
}

// Rows of `row` booleans each as words of bits.
std::vector<shared::uint> bits(const json& numbers, std::int64_t row) {
  std::vector<shared::uint> words;
  std::int64_t j = 0;
  for (const json& x : numbers) {
    if (j % 32 == 0) words.push_back(0);
    words.back() |= static_cast<shared::uint>(x.get<double>()) << (j % 32);
    j = (j + 1) % row;
  }
  return words;
}

// Lengths, or offsets of packed rows with two rows of nobody before them and three behind, which
// the total follows.
std::vector<std::int64_t> rows(const json& c, int side, crossflash_rows kind, std::int64_t* total) {
  std::vector<std::int64_t> lengths, offsets{2};
  for (const json& pair : c.at("lengths")) {
    lengths.push_back(pair.at(static_cast<std::size_t>(side)));
    offsets.push_back(offsets.back() + lengths.back());
  }
  if (kind == CROSSFLASH_ROWS_LENGTHS) return lengths;
  if (kind == CROSSFLASH_ROWS_ALL) return {};
  *total = offsets.back() + 3;
  return offsets;
}

TEST(Golden, ExactAttentionIsPyTorchs) {
  std::ifstream file(CROSSFLASH_GOLDEN_FILE);
  ASSERT_TRUE(file) << CROSSFLASH_GOLDEN_FILE << " cannot be read";
  const json cases = json::parse(file);
  ASSERT_EQ(cases.size(), kCases);
  for (const json& c : cases) {
    SCOPED_TRACE(c.at("name").get<std::string>());
    const json& tensors = c.at("tensors");
    crossflash_problem problem = problem_from(c);
    reference::Inputs in;
    in.rows_q = rows(c, 0, problem.rows_q, &problem.total_q);
    in.rows_k = rows(c, 1, problem.rows_k, &problem.total_k);
    const Problem p = checked(problem);
    in.q = floats(tensors.at("q"));
    in.k = floats(tensors.at("k"));
    in.v = floats(tensors.at("v"));
    in.grad_o = floats(tensors.at("grad_o"));
    if (p.bias.given) in.bias = floats(tensors.at("bias"));
    if (problem.alibi != 0) in.alibi = floats(tensors.at("alibi"));
    if (problem.sink != CROSSFLASH_ABSENT) in.sink = floats(tensors.at("sink"));
    if (p.mask.given) in.mask = bits(tensors.at("mask"), p.seq_k);
    ASSERT_TRUE(check_random_state(p, c.at("seed"), c.at("offset"), &in.dropout).ok());
    const reference::Outputs out = reference::exact_attention(p, in);
    const auto error = [&](const char* name, const std::vector<double>& ours) {
      std::vector<double> theirs;
      for (const json& x : tensors.at(name))
        theirs.push_back(x.is_null() ? -INFINITY : x.get<double>());
      return max_error(ours, theirs);
    };
    EXPECT_LT(error("o", out.o), 1e-13);
    EXPECT_LT(error("lse", out.lse), 1e-13);
    EXPECT_LT(error("grad_q", out.grad_q), 1e-13);
    EXPECT_LT(error("grad_k", out.grad_k), 1e-13);
    EXPECT_LT(error("grad_v", out.grad_v), 1e-13);
    if (p.bias.gradient) {
      EXPECT_LT(error("grad_bias", out.grad_bias), 1e-13);
    }
    if (p.sink_gradient) {
      EXPECT_LT(error("grad_sink", out.grad_sink), 1e-13);
    }
  }
}

}  // namespace
}  // namespace crossflash
