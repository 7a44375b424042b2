// SPDX-License-Identifier: MIT
// random_case.cpp: cases nobody thought of. Each draw is small enough that two thousand of them and
// their double references are a matter of minutes on a CPU.
#include <algorithm>
#include <iterator>

#include "tests/conformance/conformance.h"
#include "tests/conformance/sequences.h"

namespace crossflash::conformance {
namespace {

class Draw {
 public:
  explicit Draw(std::mt19937_64& random) : random_(random) {}

  // Uniform in [low, high]. The engine is specified bit for bit, the standard distributions are
  // not.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    const auto span = static_cast<std::uint64_t>(high - low + 1);
    return low + static_cast<std::int64_t>(random_() % span);
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <typename T, std::size_t N>
  T pick(const T (&choices)[N]) {
    return choices[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(N) - 1))];
  }

 private:
  std::mt19937_64& random_;
};

constexpr double kFlops = 20e6;      // of forward and backward together
constexpr double kMoreFlops = 80e6;  // for one case in fifty
constexpr std::int64_t kYardstickRows = 32;
constexpr std::int64_t kYardstickHeads = 8;

std::int64_t draw_head_size(Draw& draw) {
  constexpr std::int64_t kUsual[] = {1,  8,  15,  16,  32,  40,  64,  72,
                                     80, 96, 112, 128, 160, 192, 224, 256};
  if (draw.chance(60)) return draw.pick(kUsual);
  return draw.chance(80) ? draw.between(1, 130) : draw.between(1, 512);
}

std::int64_t draw_sequence(Draw& draw) {
  constexpr std::int64_t kEdges[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};
  if (draw.chance(3)) return 0;
  return draw.chance(40) ? draw.pick(kEdges) : draw.between(1, 200);
}

void draw_shape(Draw& draw, crossflash_problem* p) {
  constexpr std::int64_t kBatches[] = {1, 1, 1, 2, 2, 3};
  constexpr std::int64_t kRatios[] = {1, 1, 2, 3, 4, 5, 8};
  p->batch = draw.chance(2) ? 0 : draw.pick(kBatches);
  p->heads_kv = draw.between(1, 3);
  p->heads_q = p->heads_kv * draw.pick(kRatios);
  p->d = draw_head_size(draw);
  p->d_v = draw.chance(70) ? p->d : draw_head_size(draw);
  p->seq_q = draw_sequence(draw);
  p->seq_k = draw.chance(30) ? p->seq_q : draw_sequence(draw);
}

// Halves the longest axes until the work is bounded: backward is two and a half times forward.
void bound_work(double flops, crossflash_problem* p) {
  const auto work = [p] {
    return 3.5 * 2 * static_cast<double>(p->batch * p->heads_q * p->seq_q * p->seq_k) *
           static_cast<double>(p->d + p->d_v);
  };
  while (work() > flops) {
    if (p->heads_q > p->heads_kv && p->heads_q >= 8) {
      p->heads_q = p->heads_kv;
    } else if (p->seq_q == p->seq_k) {
      p->seq_q = p->seq_k = (p->seq_q + 1) / 2;
    } else {
      std::int64_t& longest = p->seq_q > p->seq_k ? p->seq_q : p->seq_k;
      longest = (longest + 1) / 2;
    }
  }
}

void draw_visibility(Draw& draw, crossflash_problem* p) {
  constexpr crossflash_causal kCausal[] = {CROSSFLASH_NOT_CAUSAL, CROSSFLASH_NOT_CAUSAL,
                                           CROSSFLASH_CAUSAL_TOP_LEFT,
                                           CROSSFLASH_CAUSAL_BOTTOM_RIGHT};
  p->causal = draw.pick(kCausal);
  const auto window = [&draw]() -> std::int64_t {
    if (draw.chance(30)) return -1;
    return draw.chance(10) ? draw.between(0, std::int64_t{1} << 40) : draw.between(0, 70);
  };
  if (draw.chance(30)) {
    p->window_left = window();
    p->window_right = window();
  }
}

Axes draw_axes(Draw& draw) {
  return {draw.chance(50), draw.chance(60), draw.chance(60), draw.chance(85)};
}

void draw_score_options(Draw& draw, Case* c) {
  constexpr float kCaps[] = {0.5f, 2.0f, 10.0f, 50.0f};
  crossflash_problem& p = c->problem;
  if (draw.chance(25)) p.softcap = draw.pick(kCaps);
  if (draw.chance(20)) p.alibi = 1;
  if (draw.chance(30)) p.sink = draw.chance(30) ? CROSSFLASH_GIVEN : CROSSFLASH_WITH_GRADIENT;
  if (draw.chance(35)) {
    p.bias = CROSSFLASH_GIVEN;
    p.bias_dtype = draw.chance(30) ? CROSSFLASH_F32 : p.dtype;
    c->bias_axes = draw_axes(draw);
    Axes& a = c->bias_axes;
    if (!a.batch && !a.head && !a.seq_q) a.seq_k = true;
    // A row's gradient adds up to 0 over its keys, and has no yardstick then.
    if (a.seq_q && a.seq_k && draw.chance(60)) p.bias = CROSSFLASH_WITH_GRADIENT;
  }
  if (draw.chance(25)) {
    p.mask = 1;
    c->mask_axes = draw_axes(draw);
    c->mask_axes.seq_k = true;
  }
}

void draw_sequences(Draw& draw, Case* c) {
  constexpr crossflash_rows kKinds[] = {CROSSFLASH_ROWS_ALL, CROSSFLASH_ROWS_LENGTHS,
                                        CROSSFLASH_ROWS_OFFSETS};
  constexpr std::int64_t kPages[] = {16, 16, 32, 48, 64, 128};
  crossflash_problem& p = c->problem;
  const bool one_buffer = c->layout == Layout::packed_qkv;
  if (draw.chance(40)) {
    p.rows_q = p.rows_k = draw.pick(kKinds);
    if (!one_buffer && draw.chance(50)) p.rows_k = draw.pick(kKinds);
    if (draw.chance(25)) p.row_bits = 64;
  }
  if (!one_buffer && p.rows_k != CROSSFLASH_ROWS_OFFSETS && draw.chance(20))
    p.page_size = draw.pick(kPages);
}

std::int64_t rows_of_queries(const Case& c) {
  std::int64_t rows = 0;
  for (const Lengths& one : sequence_lengths(c)) rows += one.q;
  return rows;
}

}  // namespace

Case random_case(std::mt19937_64& random) {
  constexpr crossflash_dtype kTypes[] = {CROSSFLASH_F32, CROSSFLASH_F16, CROSSFLASH_BF16};
  constexpr Layout kLayouts[] = {Layout::bshd, Layout::bhsd, Layout::packed_qkv, Layout::padded};
  constexpr Fill kFills[] = {Fill::normal, Fill::normal, Fill::large, Fill::ties, Fill::tiny};
  constexpr float kDropouts[] = {0.1f, 0.25f, 0.48f, 0.9f};
  Draw draw(random);
  Case c = default_case();
  crossflash_problem& p = c.problem;

  draw_shape(draw, &p);
  c.layout = draw.pick(kLayouts);
  if (c.layout == Layout::packed_qkv) p.seq_k = p.seq_q;
  bound_work(draw.chance(2) ? kMoreFlops : kFlops, &p);
  draw_visibility(draw, &p);

  p.dtype = draw.pick(kTypes);
  c.fill = draw.pick(kFills);
  c.data_seed = random() % 1000000;
  if (draw.chance(50)) {
    draw_score_options(draw, &c);
    draw_sequences(draw, &c);
  }
  // The plain error of a handful of rows is a matter of luck and no yardstick, least of all where
  // scores are in the thousands and one or two keys decide a row.
  const std::int64_t rows = rows_of_queries(c);
  const bool few_rows = rows * p.heads_q < kYardstickRows;
  if (few_rows && c.fill == Fill::large) c.fill = Fill::normal;
  // So is that of one number a head, where it is a sum of errors of a rounded o.
  const bool few_sums =
      rows < kYardstickRows || (p.dtype != CROSSFLASH_F32 && p.heads_q < kYardstickHeads);
  if (few_sums && p.sink == CROSSFLASH_WITH_GRADIENT) p.sink = CROSSFLASH_GIVEN;
  if (draw.chance(20)) p.scale = static_cast<float>(draw.between(-8, 8)) / 16.0f;
  if (draw.chance(25)) {
    p.dropout = draw.pick(kDropouts);
    c.seed = random();
    c.offset = random() & 0xffffffffu;
    p.random_on_device = draw.chance(30) ? 1 : 0;
  }
  p.passes = draw.chance(70)   ? CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD
             : draw.chance(60) ? CROSSFLASH_FORWARD
                               : CROSSFLASH_BACKWARD;
  // Decoding is not trained, nor are keys in pages.
  if (few_rows || p.page_size > 0) p.passes = CROSSFLASH_FORWARD;
  p.deterministic = draw.chance(25) ? 1 : 0;
  return c;
}

}  // namespace crossflash::conformance
