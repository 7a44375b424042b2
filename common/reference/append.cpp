// SPDX-License-Identifier: MIT
#include "common/reference/append.h"

#include <algorithm>
#include <complex>

#include "common/shared/rotary.h"

namespace crossflash::reference {
namespace {

class Appending {
 public:
  Appending(const Problem& problem, const Inputs& inputs)
      : p_(problem),
        in_(inputs),
        out_{{inputs.k.begin(), inputs.k.end()}, {inputs.v.begin(), inputs.v.end()}, {}} {
    if (p_.append.rotary > 0) out_.rotated_q.resize(inputs.q.size());
  }

  Appended run() {
    for (std::int64_t b = 0; b < p_.batch; ++b) {
      const SideRows queries = query_rows(p_, in_, b), keys = key_rows(p_, in_, b);
      for (std::int64_t i = 0; i < queries.count; ++i)
        add_row(queries.flat(i),
                shared::cf_append_position(static_cast<int>(i), static_cast<int>(queries.count),
                                           static_cast<int>(keys.count)),
                keys);
    }
    return std::move(out_);
  }

 private:
  void add_row(std::int64_t row, std::int64_t position, const SideRows& keys) {
    if (position >= 0) {
      copy(in_.new_k, row, p_.heads_kv, p_.d, position, keys.flat(position), &out_.k);
      copy(in_.new_v, row, p_.heads_kv, p_.d_v, kNotTurned, keys.flat(position), &out_.v);
    }
    if (p_.append.rotary > 0)
      copy(in_.q, row, p_.heads_q, p_.d, std::max<std::int64_t>(position, 0), row, &out_.rotated_q);
  }

  // All heads of a row, turned by the angles of a position.
  void copy(const std::vector<float>& from, std::int64_t row, std::int64_t heads,
            std::int64_t width, std::int64_t position, std::int64_t to_row,
            std::vector<double>* to) const {
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* x = from.data() + (row * heads + h) * width;
      double* y = to->data() + (to_row * heads + h) * width;
      for (std::int64_t c = 0; c < width; ++c) y[c] = x[c];
      if (position != kNotTurned) turn(x, position, y);
    }
  }

  void turn(const float* x, std::int64_t position, double* y) const {
    const Append& a = p_.append;
    const std::int64_t table = std::min(position, a.positions - 1) * (a.rotary / 2);
    for (std::int64_t n = 0; n < a.rotary / 2; ++n) {
      const auto first = static_cast<std::size_t>(a.interleaved ? 2 * n : n);
      const auto second = static_cast<std::size_t>(a.interleaved ? 2 * n + 1 : n + a.rotary / 2);
      const auto angle = static_cast<std::size_t>(table + n);
      const std::complex<double> turned = std::complex<double>(x[first], x[second]) *
                                          std::complex<double>(in_.cosine[angle], in_.sine[angle]);
      y[first] = turned.real();
      y[second] = turned.imag();
    }
  }

  static constexpr std::int64_t kNotTurned = -1;
  const Problem& p_;
  const Inputs& in_;
  Appended out_;
};

}  // namespace

Appended exact_append(const Problem& problem, const Inputs& inputs) {
  return Appending(problem, inputs).run();
}

}  // namespace crossflash::reference
