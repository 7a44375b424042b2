// SPDX-License-Identifier: MIT
// host_run.h: one run of the backend "cpu" on contiguous tensors, below its plan. Outputs hold NaN
// before it.
#pragma once

#include "common/cpu/attention.h"
#include "tests/unit/support.h"

namespace crossflash::testing {

class HostRun {
 public:
  HostRun(const Problem& problem, const reference::Inputs& in) : p_(problem) {
    for (TensorId id :
         {TensorId::o, TensorId::lse, TensorId::grad_q, TensorId::grad_k, TensorId::grad_v})
      fill(id, std::vector<float>(elements(p_, id), NAN));
    fill(TensorId::q, in.q);
    fill(TensorId::k, in.k);
    fill(TensorId::v, in.v);
    fill(TensorId::grad_o, in.grad_o);
    const std::vector<std::byte> bias = stored(p_.bias.dtype, in.bias);
    const std::vector<std::byte> rows_q = indices(in.rows_q), rows_k = indices(in.rows_k);
    grad_bias_ = stored(p_.bias.dtype, std::vector<float>(extent(OptionId::grad_bias), NAN));
    grad_sink_.resize(extent(OptionId::grad_sink), NAN);

    cpu::Pool<cpu::Tiles> tiles([this] { return std::make_unique<cpu::Tiles>(p_); });
    std::vector<float> delta(elements(p_, TensorId::lse), NAN);
    std::vector<float> mend = delta;
    const cpu::Run run{p_,
                       host(TensorId::q),
                       host(TensorId::k),
                       host(TensorId::v),
                       host(TensorId::o),
                       host(TensorId::grad_o),
                       host(TensorId::grad_q),
                       host(TensorId::grad_k),
                       host(TensorId::grad_v),
                       {.bias = bias.data(),
                        .alibi = in.alibi.data(),
                        .sink = in.sink.data(),
                        .mask = in.mask.data(),
                        .rows_q = rows_q.data(),
                        .rows_k = rows_k.data(),
                        .page_table = in.page_table.data(),
                        .grad_bias = grad_bias_.data(),
                        .grad_sink = grad_sink_.data()},
                       reinterpret_cast<float*>(memory(TensorId::lse).data()),
                       delta.data(),
                       mend.data(),
                       in.dropout,
                       tiles};
    cpu::forward(run);
    if (p_.backward) cpu::backward(run);
  }

  std::vector<double> values(TensorId id) {
    return loaded(p_.tensor(id).dtype, memory(id), elements(p_, id));
  }
  reference::Outputs outputs() {
    return {values(TensorId::o),
            values(TensorId::lse),
            values(TensorId::grad_q),
            values(TensorId::grad_k),
            values(TensorId::grad_v),
            loaded(p_.bias.dtype, grad_bias_, extent(OptionId::grad_bias)),
            {grad_sink_.begin(), grad_sink_.end()}};
  }

 private:
  std::vector<std::byte>& memory(TensorId id) { return memory_[static_cast<std::size_t>(id)]; }
  cpu::HostTensor host(TensorId id) { return {&p_.tensor(id), memory(id).data()}; }
  std::size_t extent(OptionId id) const { return static_cast<std::size_t>(p_.option_extent(id)); }
  void fill(TensorId id, const std::vector<float>& values) {
    memory(id) = stored(p_.tensor(id).dtype, values);
  }

  static std::vector<std::byte> stored(crossflash_dtype dtype, const std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
    for (std::size_t n = 0; n < values.size(); ++n)
      store_element(dtype, bytes.data(), n, values[n]);
    return bytes;
  }
  static std::vector<double> loaded(crossflash_dtype dtype, const std::vector<std::byte>& bytes,
                                    std::size_t count) {
    std::vector<double> values;
    for (std::size_t n = 0; n < count; ++n)
      values.push_back(double{load_element(dtype, bytes.data(), n)});
    return values;
  }
  std::vector<std::byte> indices(const std::vector<std::int64_t>& rows) const {
    const auto size = static_cast<std::size_t>(p_.sequences.index_bytes);
    std::vector<std::byte> bytes(rows.size() * size);
    for (std::size_t n = 0; n < rows.size(); ++n)  // little-endian: the low half comes first
      std::memcpy(bytes.data() + n * size, &rows[n], size);
    return bytes;
  }

  const Problem& p_;
  std::array<std::vector<std::byte>, kTensorCount> memory_;
  std::vector<std::byte> grad_bias_;
  std::vector<float> grad_sink_;
};

}  // namespace crossflash::testing
