// SPDX-License-Identifier: MIT
// splitmix.h: the random numbers that designed data is drawn from.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace crossflash::conformance {

// SplitMix64 (Steele, Lea and Flood 2014): the same numbers with every standard library, which
// std::normal_distribution does not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return (bits() >> 32) * n >> 32; }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() {                                                         // Box and Muller 1958
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace crossflash::conformance
