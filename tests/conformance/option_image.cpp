// SPDX-License-Identifier: MIT
#include "tests/conformance/option_image.h"

#include <span>

#include "common/half.h"

namespace crossflash::conformance {
namespace {

template <typename To, typename From>
std::vector<std::byte> bytes_of(const std::vector<From>& values) {
  std::vector<To> as;
  for (const From value : values) as.push_back(static_cast<To>(value));
  const auto bytes = std::as_bytes(std::span(as));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> bytes_of_elements(crossflash_dtype dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  for (std::size_t n = 0; n < values.size(); ++n) store_element(dtype, bytes.data(), n, values[n]);
  return bytes;
}

std::vector<std::byte> bytes_of_rows(const Problem& problem,
                                     const std::vector<std::int64_t>& rows) {
  return problem.sequences.index_bytes == 8 ? bytes_of<std::int64_t>(rows)
                                            : bytes_of<std::int32_t>(rows);
}

}  // namespace

std::vector<std::byte> option_bytes(const Problem& problem, const reference::Inputs& in,
                                    std::uint64_t seed, std::uint64_t offset, OptionId id) {
  switch (id) {
    case OptionId::bias:
      return bytes_of_elements(problem.bias.dtype, in.bias);
    case OptionId::alibi:
      return bytes_of<float>(in.alibi);
    case OptionId::sink:
      return bytes_of<float>(in.sink);
    case OptionId::mask:
      return bytes_of<shared::uint>(in.mask);
    case OptionId::rows_q:
      return bytes_of_rows(problem, in.rows_q);
    case OptionId::rows_k:
      return bytes_of_rows(problem, in.rows_k);
    case OptionId::page_table:
      return bytes_of<std::int32_t>(in.page_table);
    case OptionId::random:
      return bytes_of<std::uint64_t>(std::vector{seed, offset | std::uint64_t{0xdeadbeef} << 32});
    default:
      return {};  // an output, or append's
  }
}

crossflash_buffer& option_slot(crossflash_args* args, OptionId id) {
  switch (id) {
    case OptionId::bias:
      return args->bias;
    case OptionId::alibi:
      return args->alibi;
    case OptionId::sink:
      return args->sink;
    case OptionId::mask:
      return args->mask;
    case OptionId::rows_q:
      return args->rows_q;
    case OptionId::rows_k:
      return args->rows_k;
    case OptionId::page_table:
      return args->page_table;
    case OptionId::random:
      return args->random;
    case OptionId::grad_bias:
      return args->grad_bias;
    default:  // append's have scenarios of their own
      return args->grad_sink;
  }
}

}  // namespace crossflash::conformance
