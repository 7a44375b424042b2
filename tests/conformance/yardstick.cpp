// SPDX-License-Identifier: MIT
#include "tests/conformance/yardstick.h"

#include <algorithm>
#include <cmath>

namespace crossflash::conformance {
namespace {

// The columns of every row in reverse: what is summed over them is then summed the other way round.
template <typename T>
void mirror(std::vector<T>* tensor, std::int64_t width) {
  for (auto row = tensor->begin(); row != tensor->end(); row += width)
    std::reverse(row, row + width);
}

void keep_further(const std::vector<double>& exact, const std::vector<double>& other,
                  std::vector<double>* plain) {
  for (std::size_t n = 0; n < plain->size(); ++n)
    if (std::abs(other[n] - exact[n]) > std::abs((*plain)[n] - exact[n])) (*plain)[n] = other[n];
}

}  // namespace

reference::Outputs plain_yardstick(const Problem& problem, const reference::Inputs& inputs,
                                   const reference::Outputs& exact) {
  reference::Outputs plain = reference::plain_attention(problem, inputs);
  // In 16-bit types the rounding of what is stored outweighs that of any sum.
  if (problem.dtype != CROSSFLASH_F32) return plain;

  reference::Inputs mirrored = inputs;
  mirror(&mirrored.q, problem.d);
  mirror(&mirrored.k, problem.d);
  mirror(&mirrored.v, problem.d_v);
  mirror(&mirrored.grad_o, problem.d_v);
  reference::Outputs other = reference::plain_attention(problem, mirrored);
  mirror(&other.o, problem.d_v);
  mirror(&other.grad_q, problem.d);
  mirror(&other.grad_k, problem.d);
  mirror(&other.grad_v, problem.d_v);

  keep_further(exact.o, other.o, &plain.o);
  keep_further(exact.lse, other.lse, &plain.lse);
  keep_further(exact.grad_q, other.grad_q, &plain.grad_q);
  keep_further(exact.grad_k, other.grad_k, &plain.grad_k);
  keep_further(exact.grad_v, other.grad_v, &plain.grad_v);
  keep_further(exact.grad_bias, other.grad_bias, &plain.grad_bias);
  keep_further(exact.grad_sink, other.grad_sink, &plain.grad_sink);
  return plain;
}

}  // namespace crossflash::conformance
