// SPDX-License-Identifier: MIT
// exact_attention against PyTorch's autograd in float64, from a file that scripts/make_golden.py
// wrote: a witness that shares no line with this library, visibility and dropout included.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/support.h"

namespace crossflash {
namespace {

using nlohmann::json;
using testing::checked;
using testing::max_error;

crossflash_problem problem_from(const json& c) {
  crossflash_problem p =
      testing::problem_of(c.at("batch"), c.at("seq_q"), c.at("seq_k"), c.at("heads_q"),
                          c.at("heads_kv"), c.at("d"), c.at("d_v"));
  p.causal = static_cast<crossflash_causal>(c.at("causal").get<int>());
  p.window_left = c.at("window_left");
  p.window_right = c.at("window_right");
  p.dropout = c.at("dropout");
  if (!c.at("scale").is_null()) p.scale = c.at("scale");
  return p;
}

TEST(Golden, ExactAttentionIsPyTorchs) {
  std::ifstream file(CROSSFLASH_GOLDEN_FILE);
  ASSERT_TRUE(file) << CROSSFLASH_GOLDEN_FILE << " cannot be read";
  const json cases = json::parse(file);
  ASSERT_GE(cases.size(), 13u);
  for (const json& c : cases) {
    SCOPED_TRACE(c.at("name").get<std::string>());
    const json& tensors = c.at("tensors");
    const Problem p = checked(problem_from(c));
    reference::Inputs in{
        tensors.at("q"), tensors.at("k"), tensors.at("v"), tensors.at("grad_o"), {}};
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
  }
}

}  // namespace
}  // namespace crossflash
