// SPDX-License-Identifier: MIT
// session.cpp: see session.h. The tensors lie as the conformance suite lays them, so that a case
// line means the same memory there and here.
#include "tools/session.h"

#include <algorithm>
#include <limits>

#include "tests/conformance/option_image.h"
#include "tools/exit_code.h"

namespace crossflash::tool {
namespace {

using conformance::Block;
using conformance::Role;

crossflash_problem with_strides(const Case& c) {
  crossflash_problem problem = c.problem;
  conformance::apply_layout(c, &problem);
  return problem;
}

bool is_output(TensorId id) {
  return id == TensorId::o || id == TensorId::lse || id >= TensorId::grad_q;
}

const std::vector<float>& values(const reference::Inputs& inputs, TensorId id) {
  return id == TensorId::q   ? inputs.q
         : id == TensorId::k ? inputs.k
         : id == TensorId::v ? inputs.v
                             : inputs.grad_o;
}

}  // namespace

Problem checked_problem(const Case& c) {
  const crossflash_problem problem = with_strides(c);
  Problem checked;
  const Status status = check_problem(problem, &checked);
  if (!status.ok()) throw Error(status.code(), status.text().c_str());
  return checked;
}

Session::Session(const Device& device, const Case& c, const reference::Inputs& inputs)
    : device_(device),
      problem_(checked_problem(c)),
      plan_(device, with_strides(c)),
      arrangement_(conformance::arrange(problem_, c.layout)) {
  crossflash_buffer* const slots[kTensorCount] = {&args_.q,      &args_.k,      &args_.v,
                                                  &args_.o,      &args_.lse,    &args_.grad_o,
                                                  &args_.grad_q, &args_.grad_k, &args_.grad_v};
  const std::size_t used = problem_.backward ? kTensorCount : 5;  // without grad_*
  constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t n = 0; n < used; ++n) {
    const auto id = static_cast<TensorId>(n);
    const conformance::Place& place = arrangement_.place(id);
    if (place.block == images_.size())
      images_.emplace_back(problem_.tensor(id).dtype, arrangement_.extents[place.block],
                           arrangement_.guard, is_output(id) ? Role::output : Role::input,
                           kNothing);
    if (is_output(id)) {
      images_[place.block].poison(place.view);
    } else {
      images_[place.block].write(place.view, values(inputs, id));
    }
  }
  for (const Block& image : images_) buffers_.emplace_back(device, image.bytes());
  for (std::size_t n = 0; n < used; ++n) {
    const conformance::Place& place = arrangement_.place(static_cast<TensorId>(n));
    *slots[n] = buffers_[place.block];
    slots[n]->offset += images_[place.block].offset(place.view);
  }
  give_options(c, inputs);
  if (problem_.random_on_device) return;
  args_.seed = c.seed;
  args_.offset = c.offset;
}

void Session::give_options(const Case& c, const reference::Inputs& inputs) {
  for (std::size_t n = 0; n < kOptionCount; ++n) {
    const auto id = static_cast<OptionId>(n);
    if (!problem_.uses(id, true)) continue;
    std::vector<std::byte> bytes =
        conformance::option_bytes(problem_, inputs, c.seed, c.offset, id);
    if (bytes.empty())
      bytes.resize(static_cast<std::size_t>(problem_.option_extent(id)) *
                   problem_.option_element(id));
    buffers_.emplace_back(device_, bytes);
    conformance::option_slot(&args_, id) = buffers_.back();
  }
}

void Session::forward() {
  plan_.forward(args_);
  device_.wait();
}

void Session::backward() {
  plan_.backward(args_);
  device_.wait();
}

std::vector<float> Session::output(TensorId id) const {
  const conformance::Place& place = arrangement_.place(id);
  Block image = images_[place.block];
  const auto bytes = buffers_[place.block].download<std::byte>();
  std::copy(bytes.begin(), bytes.end(), image.bytes().begin());
  return image.read(place.view);
}

}  // namespace crossflash::tool
