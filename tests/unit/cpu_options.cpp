// SPDX-License-Identifier: MIT
// The backend "cpu" with every option of a problem, around the tile size, against the double
// reference. What no sequence holds is NaN on the way in, and must stay what it was on the way out.
#include <numeric>

#include "tests/unit/host_run.h"
#include "tests/unit/support.h"

namespace crossflash {
namespace {

using testing::checked;
using testing::elements;
using testing::HostRun;
using testing::max_error;
using testing::problem_of;
using testing::random_inputs;
using testing::worst;

constexpr std::int64_t kBatch = 3;

// Whether a flat row of a side's tensors is of some sequence.
std::vector<bool> rows_in_use(const Problem& p, const reference::Inputs& in, TensorId side) {
  const Tensor& t = p.tensor(side);
  std::vector<bool> used(static_cast<std::size_t>(t.batch * t.seq));
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const reference::SideRows rows =
        side == TensorId::q ? reference::query_rows(p, in, b) : reference::key_rows(p, in, b);
    for (std::int64_t i = 0; i < rows.count; ++i)
      used[static_cast<std::size_t>(rows.flat(i))] = true;
  }
  return used;
}

void poison(const Problem& p, const reference::Inputs& in, TensorId side, TensorId id,
            std::vector<float>* values) {
  const std::vector<bool> used = rows_in_use(p, in, side);
  const std::size_t row = static_cast<std::size_t>(p.tensor(id).heads * p.tensor(id).width);
  for (std::size_t n = 0; n < values->size(); ++n)
    if (!used[n / row]) (*values)[n] = NAN;
}

std::vector<std::int64_t> row_counts(crossflash_rows kind, std::int64_t most, std::int64_t total) {
  if (kind == CROSSFLASH_ROWS_LENGTHS) return {most, 0, most / 2 + 1};
  if (kind == CROSSFLASH_ROWS_OFFSETS) return {2, 2 + most / 3, 2 + most / 3, total - 1};
  return {};
}

// Inputs for all the problem asks for.
reference::Inputs inputs_of(const Problem& p) {
  reference::Inputs in = random_inputs(p);
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  in.rows_q = row_counts(p.sequences.q, p.seq_q, p.sequences.total_q);
  in.rows_k = row_counts(p.sequences.k, p.seq_k, p.sequences.total_k);
  in.page_table.resize(static_cast<std::size_t>(p.option_extent(OptionId::page_table)));
  std::iota(in.page_table.rbegin(), in.page_table.rend(), 1);
  for (std::int64_t h = 0; h < p.heads_q; ++h) {
    in.alibi.push_back(std::exp2(-static_cast<float>(h + 1)));
    in.sink.push_back(h == 1 ? -INFINITY : normal(random));
  }
  in.bias.resize(static_cast<std::size_t>(p.option_extent(OptionId::bias)));
  for (float& x : in.bias)
    x = random() % 16 == 0 ? -INFINITY : round_to(p.bias.dtype, normal(random));
  if (in.bias.size() > static_cast<std::size_t>(2 * p.seq_k))  // a row, of all there may be
    std::fill_n(in.bias.begin(), p.seq_k, -INFINITY);
  in.mask.resize(static_cast<std::size_t>(p.option_extent(OptionId::mask)));
  const auto words = static_cast<std::size_t>((p.seq_k + 31) / 32);
  for (std::size_t n = 0; n < in.mask.size(); ++n)  // the keys of the first tile: few have any
    in.mask[n] = n % words < 2 && n / words % 128 < 64 ? 0u : static_cast<shared::uint>(random());

  poison(p, in, TensorId::q, TensorId::q, &in.q);
  poison(p, in, TensorId::q, TensorId::o, &in.grad_o);
  poison(p, in, TensorId::k, TensorId::k, &in.k);
  poison(p, in, TensorId::k, TensorId::v, &in.v);
  if (in.bias.empty()) return in;
  const std::vector<float> bias = in.bias;
  std::fill(in.bias.begin(), in.bias.end(), NAN);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads_q; ++h)
      for (std::int64_t i = 0; i < reference::query_rows(p, in, b).count; ++i)
        for (std::int64_t j = 0; j < reference::key_rows(p, in, b).count; ++j) {
          const ScoreStrides& s = p.bias.strides;
          const auto at =
              static_cast<std::size_t>(b * s.batch + h * s.head + i * s.seq_q + j * s.seq_k);
          in.bias[at] = bias[at];
        }
  return in;
}

// Rows of no packed sequence must still hold NaN; to compare the others, give them the reference's.
void expect_untouched(const Problem& p, const reference::Inputs& in, TensorId side, TensorId id,
                      const std::vector<double>& exact, std::vector<double>* ours) {
  const bool is_packed =
      (side == TensorId::q ? p.sequences.q : p.sequences.k) == CROSSFLASH_ROWS_OFFSETS;
  if (!is_packed || ours->empty()) return;
  const std::vector<bool> used = rows_in_use(p, in, side);
  const Tensor& t = p.tensor(id);
  for (std::size_t n = 0; n < ours->size(); ++n) {
    const std::size_t row = id == TensorId::lse ? n % static_cast<std::size_t>(t.seq)
                                                : n / static_cast<std::size_t>(t.heads * t.width);
    if (used[row]) continue;
    EXPECT_TRUE(std::isnan((*ours)[n]));
    (*ours)[n] = exact[n];
  }
}

void expect_as_the_reference(const crossflash_problem& problem) {
  const Problem p = checked(problem);
  const reference::Inputs in = inputs_of(p);
  const reference::Outputs exact = reference::exact_attention(p, in);
  const reference::Outputs plain = reference::plain_attention(p, in);
  reference::Outputs ours = HostRun(p, in).outputs();
  // Of 16 bits, O and with it D are rounded by both, but an output here and there is lucky in
  // plain.
  const double bound = 2 * worst(plain, exact) + 2e-6;
  const auto expect_near = [&](const char* name, std::vector<double> reference::Outputs::*field) {
    EXPECT_LE(max_error(ours.*field, exact.*field), bound) << name;
  };
  const auto expect_tensor = [&](TensorId side, TensorId id,
                                 std::vector<double> reference::Outputs::*field) {
    expect_untouched(p, in, side, id, exact.*field, &(ours.*field));
    expect_near(kTensorNames[static_cast<std::size_t>(id)], field);
  };
  expect_tensor(TensorId::q, TensorId::o, &reference::Outputs::o);
  expect_tensor(TensorId::q, TensorId::lse, &reference::Outputs::lse);
  if (!p.backward) return;
  expect_tensor(TensorId::q, TensorId::grad_q, &reference::Outputs::grad_q);
  expect_tensor(TensorId::k, TensorId::grad_k, &reference::Outputs::grad_k);
  expect_tensor(TensorId::k, TensorId::grad_v, &reference::Outputs::grad_v);
  expect_near("grad_bias", &reference::Outputs::grad_bias);
  expect_near("grad_sink", &reference::Outputs::grad_sink);
}

// The problem, with what `change` asks for, in shapes around the tile size and every type.
template <typename Change>
void expect_in_all_shapes(const Change& change) {
  struct Shape {
    std::int64_t seq_q, seq_k;
  };
  for (const auto& [seq_q, seq_k] :
       {Shape{1, 1}, Shape{1, 129}, Shape{65, 1}, Shape{65, 64}, Shape{130, 129}})
    for (int causal : {0, 1, 2}) {
      crossflash_problem problem = problem_of(kBatch, seq_q, seq_k, 4, 2, 17, 9);
      problem.causal = static_cast<crossflash_causal>(causal);
      problem.window_left = causal == 2 ? 37 : -1;
      problem.dtype = static_cast<crossflash_dtype>((seq_q + seq_k + causal) % 3);
      change(problem);
      SCOPED_TRACE(
          fmt::format("seq {}x{} causal {} {}", seq_q, seq_k, causal, dtype_name(problem.dtype)));
      expect_as_the_reference(problem);
    }
}

void give_bias(crossflash_problem& problem, const crossflash_score_strides& strides) {
  problem.bias = CROSSFLASH_WITH_GRADIENT;
  problem.bias_dtype = problem.seq_k == 64 ? CROSSFLASH_F32 : problem.dtype;
  problem.bias_strides = strides;
}

void pack(crossflash_problem& problem) {
  problem.rows_q = problem.rows_k = CROSSFLASH_ROWS_OFFSETS;
  problem.total_q = 3 + problem.seq_q / 3 + problem.seq_q + 2;  // the last two fit in no sequence
  problem.total_k = 3 + problem.seq_k / 3 + problem.seq_k + 2;
}

TEST(CpuOptions, Softcap) {
  expect_in_all_shapes([](crossflash_problem& p) { p.softcap = 3; });
}

TEST(CpuOptions, Alibi) {
  expect_in_all_shapes([](crossflash_problem& p) { p.alibi = 1; });
}

TEST(CpuOptions, Sink) {
  expect_in_all_shapes([](crossflash_problem& p) { p.sink = CROSSFLASH_WITH_GRADIENT; });
}

TEST(CpuOptions, BiasOfEveryAxis) {
  expect_in_all_shapes([](crossflash_problem& p) { give_bias(p, {0, 0, 0, 0}); });
}

TEST(CpuOptions, BiasThatAxesShare) {
  for (int axes = 1; axes < 16; ++axes) {
    SCOPED_TRACE(fmt::format("axes {:04b}", axes));
    for (std::int64_t seq_k : {64, 130}) {
      crossflash_problem p = problem_of(kBatch, 70, seq_k, 4, 2, 8, 8);
      crossflash_score_strides strides{};
      std::int64_t size = 1;
      const auto axis = [&](int bit, std::int64_t extent, std::int64_t* stride) {
        if ((axes & bit) == 0) return;
        *stride = size;
        size *= extent;
      };
      axis(1, seq_k, &strides.seq_k);
      axis(2, p.seq_q, &strides.seq_q);
      axis(4, p.heads_q, &strides.head);
      axis(8, kBatch, &strides.batch);
      give_bias(p, strides);
      expect_as_the_reference(p);
    }
  }
}

TEST(CpuOptions, MaskOfBits) {
  expect_in_all_shapes([](crossflash_problem& p) { p.mask = 1; });
  expect_in_all_shapes([](crossflash_problem& p) {  // one row for all queries of a head
    p.mask = 1;
    p.mask_strides = {0, (p.seq_k + 31) / 32, 0, 1};
  });
}

TEST(CpuOptions, PaddedSequences) {
  expect_in_all_shapes([](crossflash_problem& p) {
    p.rows_q = p.rows_k = CROSSFLASH_ROWS_LENGTHS;
    p.dropout = 0.25f;
  });
  expect_in_all_shapes([](crossflash_problem& p) {
    p.rows_k = CROSSFLASH_ROWS_LENGTHS;
    p.row_bits = 64;
  });
}

TEST(CpuOptions, PackedSequences) {
  expect_in_all_shapes(pack);
  expect_in_all_shapes([](crossflash_problem& p) {
    pack(p);
    p.rows_k = CROSSFLASH_ROWS_LENGTHS;
    p.row_bits = 64;
  });
}

TEST(CpuOptions, PagedKeys) {
  for (std::int64_t page_size : {16, 48, 128})
    expect_in_all_shapes([&](crossflash_problem& p) {
      p.passes = CROSSFLASH_FORWARD;
      p.page_size = page_size;
      p.pages = 1 + kBatch * ((p.seq_k + page_size - 1) / page_size);
      p.rows_k = CROSSFLASH_ROWS_LENGTHS;
    });
}

TEST(CpuOptions, AllTogether) {
  const auto all = [](crossflash_problem& p) {
    p.softcap = 5;
    p.alibi = 1;
    p.sink = CROSSFLASH_WITH_GRADIENT;
    give_bias(p, {0, p.seq_q * p.seq_k, p.seq_k, 1});
    p.mask = 1;
    p.dropout = 0.2f;
  };
  expect_in_all_shapes(all);
  expect_in_all_shapes([&](crossflash_problem& p) {
    all(p);
    p.rows_q = p.rows_k = CROSSFLASH_ROWS_LENGTHS;
  });
  expect_in_all_shapes([&](crossflash_problem& p) {
    all(p);
    pack(p);
  });
}

}  // namespace
}  // namespace crossflash
