// SPDX-License-Identifier: MIT
// pair_cases.cpp: every pair of options that may meet, made of one list, so that an option is tried
// with all others from the day on which it is listed. Two tiles of queries and keys, of types that
// take turns.
#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "tests/conformance/scenarios.h"
#include "tests/conformance/subject.h"

namespace crossflash::conformance {
namespace {

struct Option {
  const char* name;
  const char* kind;  // of which a problem has one
  const char* words;
};

constexpr Option kOptions[] = {
    {"softcap", "softcap", "softcap=2"},
    {"alibi", "alibi", "alibi"},
    {"sink", "sink", "dsink"},
    {"bias", "bias", "dbias"},
    {"shared_bias", "bias", "bias=hqk dbias bias-type=f32"},
    {"key_bias", "bias", "bias=bk"},
    {"mask", "mask", "mask=bhqk"},
    {"key_mask", "mask", "mask=bk"},
    {"dropout", "dropout", "dropout=0.3 seed=5 offset=9"},
    {"device_dropout", "dropout", "dropout=0.3 seed=6 offset=8 device-seed"},
    {"padded", "rows", "rows=lengths lens=70x41,23x90,0x17"},
    {"packed", "rows", "rows=offsets lens=70x41,23x90,64x0"},
    {"cache", "rows", "rows=all/lengths lens=70x41,70x90,70x1 row-bits=64"},
    {"pages", "pages", "page=32 passes=forward"},
    {"top_left", "causal", "causal=top-left"},
    {"bottom_right", "causal", "causal=bottom-right"},
    {"window", "window", "window=20,9"},
    {"gaps", "layout", "layout=padded"},
    {"one_buffer", "layout", "layout=packed seq=70"},
};

// One buffer of q, k and v has neither pages nor keys of other lengths; pages hold no packed keys.
bool may_meet(const Option& a, const Option& b) {
  const auto are = [&](std::string_view x, std::string_view y) {
    return (a.name == x && b.kind == y) || (b.name == x && a.kind == y);
  };
  return std::string_view(a.kind) != b.kind && !are("one_buffer", "rows") &&
         !are("one_buffer", "pages") && !are("packed", "pages");
}

}  // namespace

std::vector<NamedCase> pair_cases() {
  constexpr const char* kTypes[] = {"f32", "f16", "bf16"};
  std::vector<NamedCase> cases;
  for (const Option* a = std::begin(kOptions); a != std::end(kOptions); ++a)
    for (const Option* b = a + 1; b != std::end(kOptions); ++b) {
      if (!may_meet(*a, *b)) continue;
      const char* type = kTypes[(cases.size() + cases.size() / 7) % std::size(kTypes)];
      std::string line =
          fmt::format("batch=3 heads=3/1 d=24 type={} {} {}", type, a->words, b->words);
      if (line.find("seq=") == std::string::npos) line += " seq=70x90";
      cases.push_back({fmt::format("{}_and_{}", a->name, b->name), case_of(line)});
    }
  return cases;
}

}  // namespace crossflash::conformance
