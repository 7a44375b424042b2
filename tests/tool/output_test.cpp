// SPDX-License-Identifier: MIT
// output_test.cpp: outputs of `crossflash run` appear together or not at all.
#include <gtest/gtest.h>

#include "tests/tool/npy_file.h"
#include "tests/tool/program.h"

namespace crossflash::tool_test {
namespace {

class Output : public ::testing::Test {
 protected:
  Output() { write_bytes(input_, npy_bytes({1, 64, 2, 16}, std::vector<float>(2048, 0.5f))); }

  std::vector<std::string> arguments(const std::string& out) const {
    return {"run", "--backend", "cpu",  "--q",  input_,  "--k", input_,
            "--v", input_,      "--do", input_, "--out", out};
  }
  static void refused(const Outcome& outcome, const std::string& words) {
    EXPECT_EQ(outcome.exit, 2);
    EXPECT_TRUE(one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }

  Folder folder_;
  const std::string input_ = folder_ / "x.npy", out_ = folder_ / "out";
};

using Names = std::vector<std::string>;

TEST_F(Output, IsWrittenIntoANewOrAnOldFolder) {
  const Names all = {"dk.npy", "dq.npy", "dv.npy", "lse.npy", "o.npy"};
  for (int time = 0; time < 2; ++time) {
    const Outcome outcome = run_program(arguments(out_));
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    EXPECT_EQ(names_in(out_), all);
  }
}

TEST_F(Output, LeavesNothingWhenTheDiskIsFull) {
  refused(run_in_shell("ulimit -f 1", arguments(out_)), "cannot be written");
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(Output, LeavesWhatWasThereWhenTheDiskIsFull) {
  std::filesystem::create_directory(out_);
  write_bytes(out_ + "/o.npy", "old");
  refused(run_in_shell("ulimit -f 1", arguments(out_)), "cannot be written");
  EXPECT_EQ(names_in(out_), Names{"o.npy"});
  EXPECT_EQ(read_bytes(out_ + "/o.npy"), "old");
}

TEST_F(Output, IsRefusedWhereANameIsTaken) {
  std::filesystem::create_directories(out_ + "/o.npy");
  refused(run_program(arguments(out_)), "o.npy: is a directory");
  EXPECT_EQ(names_in(out_), Names{"o.npy"});
}

TEST_F(Output, IsRefusedWhereThereCanBeNoFolder) {
  refused(run_program(arguments(input_)), "cannot be made a directory");
  refused(run_program(arguments(folder_ / "no/such/folder")), "cannot be made a directory");
}

TEST_F(Output, ComesAfterEveryCheck) {
  auto with = [&](const Names& more) {
    Names all = arguments(out_);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  refused(run_program(with({"--dropout", "1.5"})), "dropout");
  refused(run_program(with({"--dropout", "nan"})), "dropout");
  refused(run_program(with({"--scale", "nan"})), "--scale is nan");
  refused(run_program(with({"--scale", "inf"})), "--scale is inf");
  EXPECT_EQ(run_program(with({"--dropout", "0.5", "--offset", "4294967296"})).exit, 3);
  refused(run_program(with({"--window", "3"})), "--window is \"3\"");
  refused(run_program(with({"--window", "3,x"})), "--window is \"3,x\"");
  refused(run_program(with({"--window", "3,4,5"})), "--window is \"3,4,5\"");
  refused(run_program(with({"--window", "-2,0"})), "window_left");
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST(StandardOutput, ThatIsFullIsNoSuccess) {
  EXPECT_EQ(run_in_shell(":", {"devices"}, ">/dev/full").exit, 2);
}

}  // namespace
}  // namespace crossflash::tool_test
