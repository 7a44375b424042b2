// SPDX-License-Identifier: MIT
// run_test.cpp: `crossflash run` from files to files, judged as the conformance suite judges.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/half.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/fill.h"
#include "tests/conformance/memory.h"
#include "tests/tool/npy_file.h"
#include "tests/tool/program.h"

namespace crossflash::tool_test {
namespace {

using Arguments = std::vector<std::string>;

struct Layout4 {
  bool bhsd = false;

  Shape shape(const Tensor& t) const {
    return bhsd ? Shape{t.batch, t.heads, t.seq, t.width} : Shape{t.batch, t.seq, t.heads, t.width};
  }
  // From [batch, seq, heads, width] to the file's order, or back.
  std::vector<float> reorder(const Tensor& t, const std::vector<float>& from, bool back) const {
    if (!bhsd) return from;
    std::vector<float> to(from.size());
    std::size_t n = 0;
    for (std::int64_t b = 0; b < t.batch; ++b)
      for (std::int64_t s = 0; s < t.seq; ++s)
        for (std::int64_t h = 0; h < t.heads; ++h)
          for (std::int64_t x = 0; x < t.width; ++x, ++n) {
            const auto turned =
                static_cast<std::size_t>(((b * t.heads + h) * t.seq + s) * t.width + x);
            back ? to[n] = from[turned] : to[turned] = from[n];
          }
    return to;
  }
};

// A case line's problem as files, what the program should be told beside them, and the judgement.
class RoundTrip {
 public:
  RoundTrip(const std::string& line, Layout4 layout, crossflash_dtype file_type)
      : layout_(layout), file_type_(file_type) {
    EXPECT_TRUE(parse_case(line, &case_).ok()) << line;
    EXPECT_TRUE(check_problem(case_.problem, &problem_).ok()) << line;
    inputs_ = conformance::make_inputs(case_, problem_);
    EXPECT_TRUE(check_random_state(problem_, case_.seed, case_.offset, &inputs_.dropout).ok());
    write("q", TensorId::q, inputs_.q);
    write("k", TensorId::k, inputs_.k);
    write("v", TensorId::v, inputs_.v);
    if (problem_.backward) write("do", TensorId::grad_o, inputs_.grad_o);
  }

  Arguments arguments(const Arguments& more) const {
    Arguments all = {"run", "--backend", "cpu", "--out", out()};
    for (const char* name : {"q", "k", "v", "do"})
      if (problem_.backward || name != std::string("do")) {
        all.push_back(std::string("--") + name);
        all.push_back(file(name));
      }
    if (layout_.bhsd) all.insert(all.end(), {"--layout", "bhsd"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void run(const Arguments& more) const {
    const Outcome outcome = run_program(arguments(more));
    ASSERT_EQ(outcome.exit, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
  }

  void judge() const {
    const auto exact = reference::exact_attention(problem_, inputs_);
    const auto plain = reference::plain_attention(problem_, inputs_);
    judge("o", TensorId::o, exact.o, plain.o);
    judge("lse", TensorId::lse, exact.lse, plain.lse);
    if (!problem_.backward) return;
    judge("dq", TensorId::grad_q, exact.grad_q, plain.grad_q);
    judge("dk", TensorId::grad_k, exact.grad_k, plain.grad_k);
    judge("dv", TensorId::grad_v, exact.grad_v, plain.grad_v);
  }

  std::vector<float> output(const std::string& name, TensorId id) const {
    const NpyFile file = read_npy_file(out() + "/" + name + ".npy");
    if (id == TensorId::lse) {
      EXPECT_TRUE(file.says("<f4", {problem_.batch, problem_.heads_q, problem_.seq_q}));
      return file.values(CROSSFLASH_F32);
    }
    const Tensor& t = problem_.tensor(id);
    const bool f16 = problem_.dtype == CROSSFLASH_F16;
    EXPECT_TRUE(file.says(f16 ? "<f2" : "<f4", layout_.shape(t))) << name << file.header;
    return layout_.reorder(t, file.values(f16 ? CROSSFLASH_F16 : CROSSFLASH_F32), true);
  }

  std::string out() const { return folder_ / "out"; }
  std::string file(const std::string& name) const { return folder_ / (name + ".npy"); }
  const Problem& problem() const { return problem_; }
  const Case& the_case() const { return case_; }

 private:
  void write(const std::string& name, TensorId id, const std::vector<float>& values) {
    const Tensor& t = problem_.tensor(id);
    write_bytes(file(name),
                npy_bytes(layout_.shape(t), layout_.reorder(t, values, false), file_type_));
  }

  void judge(const std::string& name, TensorId id, const std::vector<double>& exact,
             const std::vector<double>& plain) const {
    const auto arrangement = conformance::arrange(problem_, Layout::bshd);
    const conformance::Judgement judgement = conformance::judge_tensor(
        id, arrangement.place(id).view.tensor, output(name, id), exact, plain);
    EXPECT_EQ(judgement.failure, "");
  }

  Folder folder_;
  Layout4 layout_;
  crossflash_dtype file_type_;
  Case case_{};
  Problem problem_{};
  reference::Inputs inputs_;
};

TEST(Run, IsRightInBothLayoutsAndEveryType) {
  for (const bool bhsd : {false, true})
    for (const auto dtype : {CROSSFLASH_F32, CROSSFLASH_F16, CROSSFLASH_BF16}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + (bhsd ? " bhsd" : " bshd"));
      const RoundTrip trip(
          std::string("batch=2 seq=17x33 heads=4/2 d=16 dv=24 type=") + dtype_name(dtype), {bhsd},
          dtype == CROSSFLASH_F16 ? CROSSFLASH_F16 : CROSSFLASH_F32);
      trip.run(dtype == CROSSFLASH_BF16 ? Arguments{"--type", "bf16"} : Arguments{});
      trip.judge();
    }
}

TEST(Run, PassesItsOptionsOn) {
  struct Row {
    const char* line;
    Arguments options;
  };
  const Row rows[] = {
      {"seq=9x5 heads=2 d=8 causal=top-left", {"--causal", "top-left"}},
      {"seq=9x5 heads=2 d=8 causal=bottom-right", {"--causal", "bottom-right"}},
      {"seq=9x12 heads=2 d=8 window=2,0", {"--window", "2,0"}},
      {"seq=9x12 heads=2 d=8 window=-1,1", {"--window", "-1,1"}},
      {"seq=9x12 heads=2 d=8 scale=0.5", {"--scale", "0.5"}},
      {"seq=9x12 heads=2 d=8 scale=-0.5 passes=forward", {"--scale", "-0.5"}},
      {"seq=9x12 heads=2 d=8 dropout=0.3 seed=18446744073709551615 offset=4294967295",
       {"--dropout", "0.3", "--seed", "18446744073709551615", "--offset", "4294967295"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.line);
    const RoundTrip trip(row.line, {}, CROSSFLASH_F32);
    trip.run(row.options);
    trip.judge();
  }
}

TEST(Run, ComputesInTheTypeItIsToldWhateverTheFilesHold) {
  const RoundTrip trip("seq=20 heads=2 d=16 type=f16", {}, CROSSFLASH_F32);  // f16 values in f32
  trip.run({"--type", "f16"});
  trip.judge();
}

TEST(Run, SavesTheMaskThatWasUsed) {
  const RoundTrip trip("batch=2 seq=9x12 heads=2 d=8 dropout=0.4 seed=5 offset=6", {},
                       CROSSFLASH_F32);
  trip.run({"--dropout", "0.4", "--seed", "5", "--offset", "6", "--save-mask"});
  trip.judge();
  const NpyFile mask = read_npy_file(trip.out() + "/mask.npy");
  EXPECT_TRUE(mask.says("|u1", {2, 2, 9, 12})) << mask.header;
  std::vector<std::uint8_t> expected(2 * 2 * 9 * 12);
  ASSERT_EQ(crossflash_dropout_mask(&trip.the_case().problem, 5, 6, expected.data()),
            CROSSFLASH_OK);
  EXPECT_EQ(mask.data, std::string(expected.begin(), expected.end()));
}

TEST(Run, WritesWhatItSaysAndNoMore) {
  const RoundTrip trip("seq=8 heads=2 d=8 passes=forward", {}, CROSSFLASH_F32);
  const Outcome outcome = run_program(trip.arguments({"--json"}));
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(names_in(trip.out()), (std::vector<std::string>{"lse.npy", "o.npy"}));
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["files"].size(), 2u);
  EXPECT_EQ(json["files"][0]["path"], trip.out() + "/o.npy");
  EXPECT_EQ(json["files"][0]["shape"], (Shape{1, 8, 2, 8}));
  EXPECT_EQ(json["device"], "cpu:0");
}

TEST(Run, TakesEmptySequences) {
  for (const char* line :
       {"batch=2 seq=3x0 heads=2 d=4", "batch=2 seq=0x3 heads=2 d=4", "batch=0 seq=3 heads=2 d=4"})
    for (const bool bhsd : {false, true}) {
      SCOPED_TRACE(line);
      const RoundTrip trip(line, {bhsd}, CROSSFLASH_F32);
      trip.run({});
      trip.judge();
    }
}

TEST(Run, ReadsEveryVersionOfTheFormatAndAnyOrderOfKeys) {
  const Folder folder;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const Shape shape = {1, 2, 1, 4};
  const std::string data = npy_bytes(shape, values).substr(128);
  const std::string files[] = {
      npy_bytes(shape, values, CROSSFLASH_F32, 1), npy_bytes(shape, values, CROSSFLASH_F32, 2),
      npy_bytes(shape, values, CROSSFLASH_F32, 3),
      npy_start("{\"shape\":(1,2,1,4),\"fortran_order\":False,\"descr\":\"<f4\"}") + data};
  for (const std::string& bytes : files) {
    write_bytes(folder / "x.npy", bytes);
    const Outcome outcome = run_program({"run", "--q", folder / "x.npy", "--k", folder / "x.npy",
                                         "--v", folder / "x.npy", "--out", folder / "out"});
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
  }
}

}  // namespace
}  // namespace crossflash::tool_test
