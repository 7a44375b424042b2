// SPDX-License-Identifier: MIT
// command_test.cpp: usage, exit codes, and the subcommands devices, check and bench.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tool/program.h"

namespace crossflash::tool_test {
namespace {

using Arguments = std::vector<std::string>;
using nlohmann::json;

TEST(Usage, WrongIsExitCodeTwoAndOneLine) {
  const Arguments lines[] = {
      {},
      {"fly"},
      {"devices", "--bogus"},
      {"run"},
      {"run", "--q", "a", "--k", "b", "--v", "c"},
      {"run", "--q", "a", "--k", "b", "--v", "c", "--out", "d", "--softcap", "3"},
      {"run", "--q", "a", "--k", "b", "--v", "c", "--out", "d", "--causal", "middle"},
      {"run", "--q", "a", "--k", "b", "--v", "c", "--out", "d", "--causal", "1"},
      {"run", "--q", "a", "--k", "b", "--v", "c", "--out", "d", "--type", "f64"},
      {"run", "--q", "a", "--k", "b", "--v", "c", "--out", "d", "--layout", "sbhd"},
      {"run", "--q", "a", "--k", "b", "--v", "c", "--out", "d", "--seed", "3"},
      {"run", "--q", "a", "--k", "b", "--v", "c", "--out", "d", "--dropout", "half"},
      {"check", "--random", "0"},
      {"check", "--random", "-3"},
      {"check", "--random", "3", "seq=8"},
      {"check", "--seed", "3"},
      {"check", "--random", "3", "--part", "0/2"},
      {"check", "--random", "3", "--part", "3/2"},
      {"check", "--random", "3", "--part", "1/4"},
      {"check", "--random", "3", "--part", "1/2x"},
      {"check", "seq=eight"},
      {"check", "bogus=1"},
      {"check", "heads=3/2"},
      {"check", "--file", "/no/such/file"},
      {"check", "--file", "/dev/null"},
      {"check", "--backend", "cpu:x"},
      {"bench", "passes=backward"},
      {"bench", "--repetitions", "0"},
      {"demo"},
      {"demo", "--data", "/no/such/folder"},
  };
  for (const Arguments& line : lines) {
    const Outcome outcome = run_program(line);
    const std::string shown = testing::PrintToString(line);
    EXPECT_EQ(outcome.exit, 2) << shown << outcome.err;
    EXPECT_TRUE(one_line(outcome.err)) << shown << outcome.err;
    EXPECT_EQ(outcome.out, "") << shown;
  }
}

TEST(Usage, HelpAndVersionAreNoErrors) {
  for (const Arguments& line :
       {Arguments{"--help"}, Arguments{"--version"}, Arguments{"run", "--help"},
        Arguments{"check", "--help"}, Arguments{"bench", "--help"}}) {
    const Outcome outcome = run_program(line);
    EXPECT_EQ(outcome.exit, 0);
    EXPECT_NE(outcome.out, "");
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(Usage, NoSuchDeviceIsExitCodeThree) {
  for (const char* backend : {"abacus", "cpu:77"})
    for (const char* command : {"check", "bench"}) {
      const Outcome outcome = run_program({command, "--backend", backend, "seq=8 d=8"});
      EXPECT_EQ(outcome.exit, 3) << outcome.err;
      EXPECT_TRUE(one_line(outcome.err)) << outcome.err;
    }
  EXPECT_EQ(run_program({"check", "--backend", "cpu", "--variant", "abacus", "seq=8"}).exit, 3);
}

TEST(Devices, ListsTheCpu) {
  const Outcome text = run_program({"devices"});
  EXPECT_EQ(text.exit, 0);
  EXPECT_NE(text.out.find("cpu:0"), std::string::npos) << text.out;
  const Outcome outcome = run_program({"devices", "--json"});
  EXPECT_EQ(outcome.exit, 0);
  bool cpu = false;
  const json result = json::parse(outcome.out);
  for (const json& device : result["devices"])
    cpu = cpu || (device["device"] == "cpu:0" && device["usable"] == true);
  EXPECT_TRUE(cpu) << outcome.out;
}

TEST(Check, RunsTheBuiltInCases) {
  const Outcome outcome = run_program({"check", "--backend", "cpu", "--json"});
  EXPECT_EQ(outcome.exit, 0) << outcome.out << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_GT(result["devices"][0]["passed"], 0);
  EXPECT_EQ(result["devices"][0]["failed"], 0);
}

TEST(Check, RunsCasesFromTheLineAndFromAFile) {
  const Folder folder;
  write_bytes(folder / "cases.txt", "# two\nseq=8 d=8\n\nseq=9x5 heads=2 d=4 type=f16\n");
  const Outcome file =
      run_program({"check", "--backend", "cpu", "--file", folder / "cases.txt", "--json"});
  const Outcome line = run_program(
      {"check", "--backend", "cpu", "seq=8 d=8", "seq=9x5 heads=2 d=4 type=f16", "--json"});
  for (const Outcome& outcome : {file, line}) {
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["devices"][0]["passed"], 2);
  }
}

TEST(Check, CountsUnsupportedByReasonAndNothingExercisedIsNoSuccess) {
  const Outcome some =
      run_program({"check", "--backend", "cpu", "seq=8 d=8", "page=16", "page=16 seq=9"});
  EXPECT_EQ(some.exit, 0) << some.err;
  EXPECT_NE(some.out.find("2 unsupported: page_size is 16"), std::string::npos) << some.out;
  const Outcome none = run_program({"check", "--backend", "cpu", "page=16"});
  EXPECT_EQ(none.exit, 3) << none.out;
  EXPECT_NE(none.err.find("nothing was exercised"), std::string::npos) << none.err;
}

TEST(Check, RunsRandomCasesInParts) {
  int all = 0;
  for (const char* part : {"1/2", "2/2"}) {
    const Outcome outcome = run_program(
        {"check", "--backend", "cpu", "--random", "25", "--seed", "3", "--part", part, "--json"});
    EXPECT_EQ(outcome.exit, 0) << outcome.out << outcome.err;
    const json device = json::parse(outcome.out)["devices"][0];
    EXPECT_GT(device["passed"], 0);
    all += device["passed"].get<int>() + device["failed"].get<int>();
    for (const auto& [reason, count] : device["unsupported"].items()) all += count.get<int>();
  }
  EXPECT_EQ(all, 25);
}

TEST(Bench, TimesBothPassesBesideTheUnfused) {
  const Arguments line = {"bench",
                          "--backend",
                          "cpu",
                          "--min-time",
                          "0.001",
                          "--repetitions",
                          "2",
                          "seq=64 heads=2 d=32",
                          "seq=32 d=16 dropout=0.5 passes=forward"};
  const Outcome text = run_program(line);
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_NE(text.out.find("fused/unfused"), std::string::npos) << text.out;
  Arguments with_json = line;
  with_json.push_back("--json");
  const Outcome outcome = run_program(with_json);
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  const json results = json::parse(outcome.out)["results"];
  ASSERT_EQ(results.size(), 2u);
  ASSERT_EQ(results[0]["passes"].size(), 2u);
  for (const json& pass : results[0]["passes"]) {
    EXPECT_GT(pass["fused_seconds"], 0.0);
    EXPECT_GT(pass["unfused_seconds"], 0.0);
  }
  ASSERT_EQ(results[1]["passes"].size(), 1u);
  EXPECT_FALSE(results[1]["passes"][0].contains("unfused_seconds")) << "none has dropout";
}

}  // namespace
}  // namespace crossflash::tool_test
