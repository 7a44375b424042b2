// SPDX-License-Identifier: MIT
// Philox 4x32-10 against the known answers that its authors publish with Random123.
#include <gtest/gtest.h>

#include <array>

#include "common/shared/philox.h"

namespace crossflash::shared {
namespace {

struct KnownAnswer {
  std::array<uint, 4> counter;
  std::array<uint, 2> key;
  std::array<uint, 4> draw;
};

constexpr KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(SharedPhilox, GivesThePublishedAnswers) {
  for (const KnownAnswer& known : kKnownAnswers) {
    const uvec4 draw =
        cf_philox(uvec4(known.counter[0], known.counter[1], known.counter[2], known.counter[3]),
                  known.key[0], known.key[1]);
    EXPECT_EQ((std::array<uint, 4>{draw.x, draw.y, draw.z, draw.w}), known.draw);
  }
}

}  // namespace
}  // namespace crossflash::shared
