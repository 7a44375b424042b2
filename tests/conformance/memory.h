// SPDX-License-Identifier: MIT
// memory.h: how the tensors of a case lie in memory, and host images of the buffers that hold them:
//
//   guard | tensor elements with gaps in between | guard
//
// Invariant: what belongs to no tensor (guards, gaps, tails) is never read to any effect and never
// written. In buffers of inputs it holds NaN, in those of outputs a fixed bit pattern, and an
// output's own elements hold NaN before the call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/case_line.h"
#include "common/problem.h"

namespace crossflash::conformance {

// One tensor within a buffer. For lse `seq` counts heads and `heads` counts queries, so that
// walking batch, seq, heads, width is always the order of the reference's contiguous arrays.
struct View {
  Tensor tensor;
  std::int64_t base = 0;  // elements from the end of the front guard

  std::size_t count() const {
    return static_cast<std::size_t>(tensor.batch * tensor.seq * tensor.heads * tensor.width);
  }
};

struct Place {
  std::size_t block = 0;
  View view;
};

// Where each tensor of a problem lies. Tensors that share a block are views of one buffer.
struct Arrangement {
  std::array<Place, kTensorCount> places;
  std::vector<std::int64_t> extents;  // elements of each block, without guards
  std::int64_t guard = 64;            // elements

  const Place& place(TensorId id) const { return places[static_cast<std::size_t>(id)]; }
  Place& place(TensorId id) { return places[static_cast<std::size_t>(id)]; }
};

// The strides, totals and pages that the case's layout, axes and lengths give the problem.
void apply_layout(const Case& c, crossflash_problem* problem);

// One block for each tensor of the problem, but for packed_qkv, where q, k and v share one, and
// their gradients another.
Arrangement arrange(const Problem& problem, Layout layout);

enum class Role { input, output };

// The host image of one buffer.
class Block {
 public:
  // `gap` fills what belongs to no tensor of an input.
  Block(crossflash_dtype dtype, std::int64_t extent, std::int64_t guard, Role role, float gap);
  // Elements of `size` bytes, an input as it is, between guards that are NaN, -1 or all bits.
  Block(std::size_t size, std::span<const std::byte> contents, std::int64_t guard);

  void write(const View& view, std::span<const float> values);
  // Marks the view's elements as an output's own and poisons them; of those in `which`, unless it
  // is empty, in contiguous order.
  void poison(const View& view, const std::vector<bool>& which = {});
  std::vector<float> read(const View& view) const;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<std::byte> bytes() { return bytes_; }
  // The byte where a view starts.
  std::uint64_t offset(const View& view) const;
  std::uint64_t offset() const { return static_cast<std::uint64_t>(guard_) * size_; }
  // What differs from `before` outside the elements marked by `poison`; empty: nothing.
  std::string damage(const Block& before) const;

 private:
  crossflash_dtype dtype_ = CROSSFLASH_F32;
  std::size_t size_;  // of an element, in bytes
  std::int64_t guard_, extent_;
  std::vector<std::byte> bytes_;
  std::vector<bool> owned_;  // by element
};

// "(batch 0, query 3, head 1, element 5)" of the n-th element in contiguous order.
std::string coordinates(TensorId id, const Tensor& tensor, std::size_t n);

}  // namespace crossflash::conformance
