// SPDX-License-Identifier: MIT
// option_files_test.cpp: the options of `crossflash run` that are files, against the reference; and
// what is wrong with such a file, in one sentence.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "common/reference/attention.h"
#include "tests/tool/npy_file.h"
#include "tests/tool/program.h"

namespace crossflash::tool_test {
namespace {

using Arguments = std::vector<std::string>;

std::vector<float> wave(std::size_t count, double step) {
  std::vector<float> values(count);
  for (std::size_t n = 0; n < count; ++n)
    values[n] = static_cast<float>(std::sin(step * static_cast<double>(n + 1)));
  return values;
}

template <typename T>
std::string integers(const char* descr, const Shape& shape, const std::vector<T>& values) {
  std::string bytes = npy_start(npy_header(descr, shape));
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return bytes;
}

// Two sequences of 5 queries and 7 keys, 4 heads on 2, head size 8, unless a test says otherwise.
class OptionFile : public ::testing::Test {
 protected:
  OptionFile() {
    crossflash_problem_init(&problem_);
    problem_.passes = CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD;
    problem_.batch = 2;
    problem_.seq_q = 5;
    problem_.seq_k = 7;
    problem_.heads_q = 4;
    problem_.heads_kv = 2;
    problem_.d = problem_.d_v = 8;
  }

  std::string file(const std::string& name) const { return folder_ / (name + ".npy"); }
  void save(const std::string& name, const Shape& shape, const std::vector<float>& values) const {
    write_bytes(file(name), npy_bytes(shape, values));
  }
  template <typename T>
  void save(const std::string& name, const char* descr, const Shape& shape,
            const std::vector<T>& values) const {
    write_bytes(file(name), integers(descr, shape, values));
  }

  // Writes q, k, v and do as the problem wants them, for the program and for the reference.
  void make_tensors() {
    ASSERT_TRUE(check_problem(problem_, &checked_).ok());
    const auto tensor = [&](const char* name, TensorId id, double step) {
      const Tensor& t = checked_.tensor(id);
      const Shape shape = {t.batch, t.seq, t.heads, t.width};
      const auto values = wave(static_cast<std::size_t>(t.batch * t.seq * t.heads * t.width), step);
      save(name, shape, values);
      return values;
    };
    inputs_.q = tensor("q", TensorId::q, 0.7);
    inputs_.k = tensor("k", TensorId::k, 1.3);
    inputs_.v = tensor("v", TensorId::v, 0.37);
    if (checked_.backward) inputs_.grad_o = tensor("do", TensorId::grad_o, 0.91);
  }

  Outcome run(const Arguments& more) const {
    Arguments all = {"run",     "--backend", "cpu",     "--out", out_,     "--q",
                     file("q"), "--k",       file("k"), "--v",   file("v")};
    if ((problem_.passes & CROSSFLASH_BACKWARD) != 0) all.insert(all.end(), {"--do", file("do")});
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }

  void is_right(const Arguments& more) {
    const Outcome outcome = run(more);
    ASSERT_EQ(outcome.exit, 0) << outcome.err;
    const auto exact = reference::exact_attention(checked_, inputs_);
    compare("o", exact.o);
    compare("lse", exact.lse);
    if (!checked_.backward) return;
    compare("dq", exact.grad_q);
    compare("dk", exact.grad_k);
    compare("dv", exact.grad_v);
    if (checked_.bias.gradient) compare("dbias", exact.grad_bias);
    if (checked_.sink_gradient) compare("dsink", exact.grad_sink);
  }

  void compare(const std::string& name, const std::vector<double>& exact) const {
    const auto values = read_npy_file(out_ + "/" + name + ".npy").values(CROSSFLASH_F32);
    ASSERT_EQ(values.size(), exact.size()) << name;
    for (std::size_t n = 0; n < exact.size(); ++n) {
      if (double{values[n]} == exact[n]) continue;  // infinities
      ASSERT_NEAR(values[n], exact[n], 2e-5) << name << " " << n;
    }
  }

  void refused(const Arguments& more, const std::string& words) const {
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.exit, 2) << words << outcome.err;
    EXPECT_TRUE(one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos)
        << "not \"" << words << "\": " << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(out_)) << words;
  }

  Folder folder_;
  const std::string out_ = folder_ / "out";
  crossflash_problem problem_{};
  Problem checked_{};
  reference::Inputs inputs_;
};

TEST_F(OptionFile, SoftcapIsRight) {
  problem_.softcap = 0.5f;
  make_tensors();
  is_right({"--softcap", "0.5"});
}

TEST_F(OptionFile, BiasIsRightWhateverIsShared) {
  for (const Shape& shape :
       {Shape{2, 4, 5, 7}, Shape{1, 4, 5, 7}, Shape{2, 1, 1, 7}, Shape{1, 1, 5, 1}}) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    problem_.bias = CROSSFLASH_WITH_GRADIENT;
    std::int64_t step = 1;
    std::int64_t* const strides[] = {&problem_.bias_strides.seq_k, &problem_.bias_strides.seq_q,
                                     &problem_.bias_strides.head, &problem_.bias_strides.batch};
    for (std::size_t n = 0; n < 4; ++n) {
      *strides[n] = shape[3 - n] == 1 ? 0 : step;
      step *= shape[3 - n];
    }
    make_tensors();
    inputs_.bias = wave(static_cast<std::size_t>(step), 0.53);
    save("bias", shape, inputs_.bias);
    is_right({"--bias", file("bias"), "--dbias"});
    std::filesystem::remove_all(out_);
  }
}

TEST_F(OptionFile, SlopesAndSinksAreRight) {
  problem_.alibi = 1;
  problem_.sink = CROSSFLASH_WITH_GRADIENT;
  problem_.causal = CROSSFLASH_CAUSAL_BOTTOM_RIGHT;
  make_tensors();
  inputs_.alibi = {0.5f, 0.25f, 0.125f, 0.0625f};
  inputs_.sink = {0.3f, -1.0f, 2.0f, 0.0f};
  save("alibi", {4}, inputs_.alibi);
  save("sink", {4}, inputs_.sink);
  is_right({"--alibi", file("alibi"), "--sink", file("sink"), "--causal", "bottom-right"});
}

TEST_F(OptionFile, MaskIsRight) {
  problem_.mask = 1;
  problem_.mask_strides = {5, 0, 1, 1};
  make_tensors();
  std::vector<std::uint8_t> bytes(2 * 5 * 7);
  inputs_.mask.assign(2 * 5, 0);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    bytes[n] = n % 3 != 0 && n / 7 != 4 ? 1 : 0;  // one query sees nothing
    inputs_.mask[n / 7] |= static_cast<unsigned>(bytes[n]) << (n % 7);
  }
  for (const char* descr : {"|b1", "|u1"}) {
    save("mask", descr, {2, 1, 5, 7}, bytes);
    is_right({"--mask", file("mask")});
  }
}

TEST_F(OptionFile, PackedSequencesAreRight) {
  problem_.batch = 3;
  problem_.seq_q = 3;
  problem_.seq_k = 4;
  problem_.total_q = 5;
  problem_.total_k = 7;
  problem_.rows_q = problem_.rows_k = CROSSFLASH_ROWS_OFFSETS;
  make_tensors();
  inputs_.rows_q = {0, 3, 3, 5};
  inputs_.rows_k = {0, 4, 6, 6};
  save("cu_q", "<i4", {4}, std::vector<std::int32_t>{0, 3, 3, 5});
  save("cu_k", "<i8", {4}, std::vector<std::int64_t>{0, 4, 6, 6});
  const Outcome outcome = run({"--cu-seqlens-q", file("cu_q"), "--cu-seqlens-k", file("cu_k")});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const auto exact = reference::exact_attention(checked_, inputs_);
  compare("o", exact.o);
  compare("dq", exact.grad_q);
  compare("dk", exact.grad_k);
  compare("dv", exact.grad_v);
}

TEST_F(OptionFile, PaddedSequencesAreRight) {
  problem_.rows_q = problem_.rows_k = CROSSFLASH_ROWS_LENGTHS;
  make_tensors();
  inputs_.rows_q = {5, 2};
  inputs_.rows_k = {3, 7};
  save("q_lens", "<i4", {2}, std::vector<std::int32_t>{5, 2});
  save("k_lens", "<i4", {2}, std::vector<std::int32_t>{3, 7});
  is_right({"--seqlens-q", file("q_lens"), "--seqlens-k", file("k_lens")});
}

TEST_F(OptionFile, PagedKeysAreRight) {
  problem_.passes = CROSSFLASH_FORWARD;
  problem_.seq_k = 32;
  problem_.page_size = 16;
  problem_.pages = 5;
  problem_.rows_k = CROSSFLASH_ROWS_LENGTHS;
  make_tensors();
  inputs_.rows_k = {20, 9};
  inputs_.page_table = {4, 1, 2, 0};
  save("k_lens", "<i4", {2}, std::vector<std::int32_t>{20, 9});
  save("pages", "<i4", {2, 2}, std::vector<std::int32_t>{4, 1, 2, -1});  // -1 is past the length
  is_right({"--seqlens-k", file("k_lens"), "--page-table", file("pages")});
}

TEST_F(OptionFile, WhatIsWrongIsSaidInOneSentence) {
  make_tensors();
  save("bias", {2, 4, 5, 6}, wave(240, 1));
  refused({"--bias", file("bias")}, "bias has 6 keys; it must be 7, or 1");
  save("bias", {4, 5, 7}, wave(140, 1));
  refused({"--bias", file("bias")}, "bias has 4");
  save("slopes", {3}, wave(3, 1));
  refused({"--alibi", file("slopes")}, "alibi has one number for each of the 4 query heads");
  refused({"--sink", file("slopes")}, "sink has one number for each of the 4 query heads");
  refused({"--mask", file("slopes")}, "bool ('|b1') and uint8 ('|u1') are read");
  save("mask", "|b1", {1, 1, 1, 1}, std::vector<std::uint8_t>{1});
  refused({"--mask", file("mask")}, "mask has 1 keys; it must be 7");
  refused({"--seqlens-k", file("slopes")}, "int32 ('<i4') and int64 ('<i8') are read");
  save("lens", "<i4", {2}, std::vector<std::int32_t>{3, 8});
  refused({"--seqlens-k", file("lens")}, "seqlens-k[1] is 8; it must lie between 0 and 7");
  save("lens", "<i4", {3}, std::vector<std::int32_t>{1, 2, 3});
  refused({"--seqlens-q", file("lens")}, "has 3 lengths; the batch has 2 sequences");
  refused({"--cu-seqlens-q", file("lens")}, "q has batch 2; with --cu-seqlens-q it must be 1");
  refused({"--softcap", "-1"}, "--softcap");
}

TEST_F(OptionFile, WhatIsWrongWithOffsetsAndPagesIsSaidInOneSentence) {
  problem_.batch = 1;
  problem_.passes = CROSSFLASH_FORWARD;
  make_tensors();
  save("good", "<i4", {2}, std::vector<std::int32_t>{0, 5});
  save("back", "<i4", {3}, std::vector<std::int32_t>{0, 4, 2});
  save("past", "<i4", {2}, std::vector<std::int32_t>{0, 9});
  save("three", "<i4", {3}, std::vector<std::int32_t>{0, 1, 2});
  refused({"--cu-seqlens-q", file("back")}, "cu-seqlens-q[2] is 2; it must lie between 4 and 5");
  refused({"--cu-seqlens-k", file("past")}, "cu-seqlens-k[1] is 9; it must lie between 0 and 7");
  refused({"--cu-seqlens-q", file("good"), "--cu-seqlens-k", file("three")}, "sequences");
  refused({"--cu-seqlens-q", file("good"), "--seqlens-q", file("good")}, "contradict");
  refused({"--cu-seqlens-k", file("good"), "--page-table", file("good")}, "contradict");
  save("pages", "<i4", {1, 1}, std::vector<std::int32_t>{1});
  refused({"--page-table", file("pages")}, "sequence 0 has page 1; k has pages 0 to 0");
  refused({"--page-table", file("good")}, "a page table has a row for each of 1 sequences");
}

}  // namespace
}  // namespace crossflash::tool_test
