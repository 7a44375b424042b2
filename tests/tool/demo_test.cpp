// SPDX-License-Identifier: MIT
// demo_test.cpp: `crossflash demo` on data small enough for a test.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/tool/npy_file.h"
#include "tests/tool/program.h"

namespace crossflash::tool_test {
namespace {

void write_data(const Folder& folder) {
  int n = 0;
  for (const char* name : {"q", "k", "v", "do"}) {
    std::vector<float> values(33 * 2 * 16);
    for (float& value : values) {
      value = static_cast<float>(std::sin(0.7 * n * n));
      ++n;
    }
    write_bytes(folder / (std::string(name) + ".npy"),
                npy_bytes({1, 33, 2, 16}, values, CROSSFLASH_F16));
  }
}

TEST(Demo, IsRightInEveryTypeAndMaskAndSaysSoLast) {
  const Folder folder;
  write_data(folder);
  const Outcome outcome = run_program({"demo", "--backend", "cpu", "--data", folder / ""});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  const std::size_t last = outcome.out.rfind('\n', outcome.out.size() - 2) + 1;
  EXPECT_TRUE(outcome.out.substr(last).starts_with("all right: 6 runs")) << outcome.out;
  for (std::size_t begin = 0; begin < outcome.out.size();) {
    const std::size_t end = outcome.out.find('\n', begin);
    EXPECT_LE(end - begin, 120u) << outcome.out.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(Demo, SaysTheSameInJson) {
  const Folder folder;
  write_data(folder);
  const Outcome outcome =
      run_program({"demo", "--backend", "cpu", "--data", folder / "", "--json"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["results"].size(), 6u);
  for (const auto& row : json["results"]) {
    EXPECT_EQ(row["right"], true);
    EXPECT_LE(row["worst"]["error"], row["worst"]["tolerance"]);
    EXPECT_GT(row["forward_seconds"], 0.0);
  }
}

TEST(Demo, NamesTheFileThatIsMissing) {
  const Folder folder;
  write_data(folder);
  std::filesystem::remove(folder / "v.npy");
  const Outcome outcome = run_program({"demo", "--backend", "cpu", "--data", folder / ""});
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_NE(outcome.err.find("v.npy"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace crossflash::tool_test
