// SPDX-License-Identifier: MIT
#include "tests/conformance/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "tests/conformance/memory.h"

namespace crossflash::conformance {
namespace {

constexpr double kFactorForward = 2;
constexpr double kFactorGradient = 3;

// Half the distance between the numbers of a type with `bits` bits of mantissa at `value`.
double half_ulp(double value, int bits, int lowest_exponent) {
  const int exponent = value > 0 ? std::max(std::ilogb(value), lowest_exponent) : lowest_exponent;
  return std::ldexp(1.0, exponent - bits - 1);
}

// 0 if both are the same number, the same infinity included; NaN if either is NaN.
double distance(double a, double b) { return a == b ? 0 : std::abs(a - b); }

// "(head 1, query 3, key 5)": the axes along which the gradient varies.
std::string bias_coordinates(const Problem& p, std::size_t element) {
  const ScoreStrides& s = p.bias.grad_strides;
  std::string text;
  auto rest = static_cast<std::int64_t>(element);
  for (const auto& [name, stride] : {std::pair{"batch", s.batch}, std::pair{"head", s.head},
                                     std::pair{"query", s.seq_q}, std::pair{"key", s.seq_k}}) {
    if (stride == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, rest / stride);
    rest %= stride;
  }
  return '(' + text + ')';
}

struct Judged {
  const char* name;
  crossflash_dtype dtype;
  double factor;
  std::function<std::string(std::size_t)> where;  // the n-th element
};

Judgement judge(const Judged& what, std::span<const float> out, std::span<const double> exact,
                std::span<const double> plain, double gain) {
  Judgement j;
  j.report.name = what.name;
  if (out.size() != exact.size() || plain.size() != exact.size()) {
    j.failure = fmt::format("{} has {} elements, the reference {} and the plain computation {}",
                            j.report.name, out.size(), exact.size(), plain.size());
    return j;
  }
  double largest = 0;
  for (std::size_t n = 0; n < exact.size(); ++n) {
    if (std::isfinite(exact[n])) largest = std::max(largest, std::abs(exact[n]));
    // Where the plain computation is not even finite it is no yardstick.
    const double plain_error = distance(plain[n], exact[n]);
    if (std::isfinite(plain_error))
      j.report.plain_error = std::max(j.report.plain_error, plain_error);
  }
  j.report.tolerance =
      what.factor * j.report.plain_error + rounding_floor(what.dtype, largest, gain);

  std::size_t wrong = 0, first = 0;
  for (std::size_t n = 0; n < exact.size(); ++n) {
    const double error = distance(out[n], exact[n]);
    if (!(error <= j.report.error) && !std::isnan(j.report.error)) j.report.error = error;
    if (!(error <= j.report.tolerance) && wrong++ == 0) first = n;
  }
  if (wrong > 0)
    j.failure = fmt::format(
        "{} {} is {:.9g}, should be {:.9g} within {:.3g} (error of the plain computation {:.3g}); "
        "{} of {} elements are wrong",
        j.report.name, what.where(first), out[first], exact[first], j.report.tolerance,
        j.report.plain_error, wrong, exact.size());
  return j;
}

}  // namespace

double rounding_floor(crossflash_dtype dtype, double largest, double gain) {
  const double f32 = 4 * std::ldexp(largest, -23) + gain * 0x1p-126;
  switch (dtype) {
    case CROSSFLASH_F16:
      return half_ulp(largest, 10, -14) + f32;
    case CROSSFLASH_BF16:
      return half_ulp(largest, 7, -126) + f32;
    default:
      return f32;
  }
}

Judgement judge_tensor(TensorId id, const Tensor& tensor, std::span<const float> out,
                       std::span<const double> exact, std::span<const double> plain, double gain) {
  return judge({kTensorNames[static_cast<std::size_t>(id)], tensor.dtype,
                id >= TensorId::grad_o ? kFactorGradient : kFactorForward,
                [&](std::size_t n) { return coordinates(id, tensor, n); }},
               out, exact, plain, gain);
}

Judgement judge_option(OptionId id, const Problem& problem, std::span<const float> out,
                       std::span<const double> exact, std::span<const double> plain, double gain) {
  const bool bias = id == OptionId::grad_bias;
  return judge({kOptionNames[static_cast<std::size_t>(id)],
                bias ? problem.bias.dtype : CROSSFLASH_F32, kFactorGradient,
                [&](std::size_t n) {
                  return bias ? bias_coordinates(problem, n) : fmt::format("(head {})", n);
                }},
               out, exact, plain, gain);
}

}  // namespace crossflash::conformance
