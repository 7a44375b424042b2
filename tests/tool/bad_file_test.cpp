// SPDX-License-Identifier: MIT
// bad_file_test.cpp: whatever is wrong with an input file, `crossflash run` says so in one sentence
// that names the file, ends with exit code 2, and leaves nothing behind.
#include <gtest/gtest.h>

#include <limits>

#include "tests/tool/npy_file.h"
#include "tests/tool/program.h"

namespace crossflash::tool_test {
namespace {

const Shape kShape = {1, 3, 2, 4};
const std::vector<float> kValues(24, 0.5f);

class BadFile : public ::testing::Test {
 protected:
  BadFile() { write_bytes(good_, npy_bytes(kShape, kValues)); }

  Outcome run(const std::string& k) const {
    return run_program({"run", "--backend", "cpu", "--q", good_, "--k", k, "--v", good_, "--do",
                        good_, "--out", out_});
  }

  // That k, of these bytes, is refused with these words.
  void refused(const std::string& bytes, const std::string& words) const {
    write_bytes(bad_, bytes);
    refused_as_it_is(bad_, words);
  }
  void refused_as_it_is(const std::string& path, const std::string& words) const {
    const Outcome outcome = run(path);
    EXPECT_EQ(outcome.exit, 2) << words;
    EXPECT_TRUE(one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find(path), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos)
        << "not \"" << words << "\": " << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(std::filesystem::exists(out_)) << words;
  }
  void header_refused(const std::string& header, const std::string& words) const {
    refused(npy_start(header) + std::string(96, '\0'), words);
  }

  Folder folder_;
  const std::string good_ = folder_ / "good.npy", bad_ = folder_ / "bad.npy",
                    out_ = folder_ / "out";
};

TEST_F(BadFile, TruncatedAnywhere) {
  for (const int major : {1, 2}) {
    const std::string whole = npy_bytes(kShape, kValues, CROSSFLASH_F32, major);
    for (std::size_t length = 0; length < whole.size(); length += length < 140 ? 1 : 23)
      refused(whole.substr(0, length), "truncated");
  }
}

TEST_F(BadFile, TrailingBytes) { refused(npy_bytes(kShape, kValues) + "x", "1 bytes follow"); }

TEST_F(BadFile, WrongMagicAndVersion) {
  std::string bytes = npy_bytes(kShape, kValues);
  refused("not a .npy file at all, but long enough to be one", "magic");
  refused("PK\3\4" + bytes, "magic");
  bytes[6] = 4;
  refused(bytes, "version 4.0");
  bytes[6] = 0;
  refused(bytes, "version 0.0");
  bytes[6] = 1;
  bytes[7] = 1;
  refused(bytes, "version 1.1");
}

TEST_F(BadFile, WrongElementType) {
  for (const char* descr :
       {"<f8", "<i4", "|u1", "|b1", "<c8", "|O", "<V2", "=f4", "f4", "", "<f44"})
    header_refused(npy_header(descr, kShape), "elements of type '" + std::string(descr) + "'");
  header_refused(npy_header(">f4", kShape), "big-endian");
  header_refused(npy_header(">f2", kShape), "big-endian");
  header_refused("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1, 3, 2, 4), }",
                 "structured");
}

TEST_F(BadFile, FortranOrder) {
  header_refused("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 3, 2, 4), }", "Fortran");
}

TEST_F(BadFile, WrongNumberOfDimensions) {
  refused(npy_start(npy_header("<f4", {})) + std::string(4, '\0'), "0 dimensions");
  refused(npy_start(npy_header("<f4", {24})) + std::string(96, '\0'), "1 dimensions");
  refused(npy_start(npy_header("<f4", {3, 2, 4})) + std::string(96, '\0'), "3 dimensions");
  refused(npy_start(npy_header("<f4", {1, 1, 3, 2, 4})) + std::string(96, '\0'), "5 dimensions");
}

TEST_F(BadFile, HugeDimensions) {
  const std::int64_t max = std::numeric_limits<std::int64_t>::max();
  header_refused(npy_header("<f4", {max, 1, 1, 1}), "overflows");
  header_refused(npy_header("<f4", {max, max, max, max}), "overflows");
  header_refused(npy_header("<f4", {1ll << 31, 1ll << 31, 4, 1}), "overflows");
  header_refused(npy_header("<f4", {1ll << 31, 1ll << 31, 2, 2}), "overflows");
  header_refused(npy_header("<f4", {1ll << 40, 1, 1, 4}), "truncated");
  header_refused(
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 1, 1, 1)}",
      "99999999999999999999, which overflows");
  header_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 3, 2, 4)}", "negative");
}

TEST_F(BadFile, MalformedHeader) {
  for (const char* header :
       {"",
        "garbage",
        "{",
        "}",
        "{}garbage",
        "[]",
        "nan",
        "{'descr': '<f4'",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (nan, 3, 2, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0, 3, 2, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 3, 2, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,, 3, 2, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (24), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [1, 3, 2, 4], }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 2, 4",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1, 3, 2, 4), }",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (1, 3, 2, 4), }",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1, 3, 2, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 2, 4), 'more': 1, }",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 2, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 2, 4), } {}"})
    header_refused(header, "malformed");
  header_refused("{}", "lacks the key descr");
  header_refused("{'descr': '<f4', 'fortran_order': False}", "lacks the key shape");
  header_refused("{'descr': '<f4', 'shape': (1, 3, 2, 4)}", "lacks the key fortran_order");
  header_refused(std::string("{'descr': '<f4',\0 }", 19), "malformed");
  std::string bytes = npy_bytes(kShape, kValues, CROSSFLASH_F32, 2);
  bytes[11] = '\x7f';  // a header of two gigabytes
  refused(bytes, "its header claims");
}

// Whatever one wrong byte does, the program ends in order.
TEST_F(BadFile, AnyByteOfTheHeaderChanged) {
  const std::string whole = npy_bytes(kShape, kValues);
  for (std::size_t at = 0; at < 128; ++at)
    for (const char byte : {'\0', '9', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = byte;
      if (bytes == whole) continue;
      write_bytes(bad_, bytes);
      const Outcome outcome = run(bad_);
      ASSERT_EQ(outcome.exit, 2) << "byte " << at << ": " << outcome.err;
      ASSERT_TRUE(one_line(outcome.err)) << outcome.err;
    }
}

TEST_F(BadFile, NoFile) {
  refused_as_it_is(folder_ / "missing.npy", "No such file");
  std::filesystem::create_directory(folder_ / "directory.npy");
  refused_as_it_is(folder_ / "directory.npy", "directory");
  refused_as_it_is("/dev/null", "not a file");
}

TEST_F(BadFile, MismatchedShapes) {
  const auto file = [](const Shape& shape, std::size_t count) {
    return npy_bytes(shape, std::vector<float>(count, 0.5f));
  };
  refused(file({2, 3, 2, 4}, 48), "k has batch 2, but q");
  refused(file({1, 3, 2, 5}, 30), "k has head size 5, but q");
  refused(file({1, 4, 2, 4}, 32), "v has sequence length 3, but k");
  refused(file({1, 3, 1, 4}, 12), "v has head count 2, but k");
  refused(npy_bytes(kShape, kValues, CROSSFLASH_F16), "float16, but q");
}

TEST_F(BadFile, GradientOfAnotherShape) {
  write_bytes(bad_, npy_bytes({1, 4, 2, 4}, std::vector<float>(32)));
  const Outcome outcome =
      run_program({"run", "--q", good_, "--k", good_, "--v", good_, "--do", bad_, "--out", out_});
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_NE(outcome.err.find("do has sequence length 4, but q"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace crossflash::tool_test
