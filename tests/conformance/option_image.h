// SPDX-License-Identifier: MIT
// option_image.h: what an option's buffer holds, byte for byte, and where crossflash_args names it.
#pragma once

#include <cstddef>
#include <vector>

#include "common/problem.h"
#include "common/reference/attention.h"

namespace crossflash::conformance {

inline bool is_option_input(OptionId id) { return id <= OptionId::random; }

// Of an input. The random state's offset comes with its high half in disorder: the low one counts.
std::vector<std::byte> option_bytes(const Problem& problem, const reference::Inputs& inputs,
                                    std::uint64_t seed, std::uint64_t offset, OptionId id);

crossflash_buffer& option_slot(crossflash_args* args, OptionId id);

}  // namespace crossflash::conformance
