// SPDX-License-Identifier: MIT
// pair_cases.cpp: every pair of options that may meet, made of one list, so that an option is tried
// with all others from the day on which it is listed: over two tiles of queries and keys, and as
// few queries against many keys, where a backend may split the keys. Types take turns.
#include <fmt/format.h>

#include <algorithm>
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
    {"one_buffer", "layout", "layout=packed"},
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
  std::size_t turn = 0;
  for (const Option* a = std::begin(kOptions); a != std::end(kOptions); ++a)
    for (const Option* b = a + 1; b != std::end(kOptions); ++b) {
      if (!may_meet(*a, *b)) continue;
      const std::string name = fmt::format("{}_and_{}", a->name, b->name);
      const std::string words = fmt::format("{} {}", a->words, b->words);
      const char* type = kTypes[(turn + turn / 7) % std::size(kTypes)];
      ++turn;
      const bool one_buffer = words.find("layout=packed") != std::string::npos;
      // The gradient of sinks has one number a head. In 16-bit types, where it is a sum of errors
      // of a rounded o, a few such numbers would be no yardstick.
      const bool sinks = words.find("dsink") != std::string::npos;
      if (sinks) type = kTypes[0];
      const char* heads = sinks ? "8/2" : "3/1";
      cases.push_back(
          {name, case_of(fmt::format("batch=3 seq={} heads={} d=24 type={} {}",
                                     one_buffer ? "70" : "70x90", heads, type, words))});
      if (one_buffer) continue;
      Case few = case_of(fmt::format("batch=3 seq=3x700 heads=8/2 d=64 type={} {}", type, words));
      few.problem.passes = CROSSFLASH_FORWARD;
      for (Lengths& one : few.lengths) one = {std::min<std::int64_t>(one.q, 3), one.k * 7};
      cases.push_back({"few_queries_" + name, few});
    }
  return cases;
}

}  // namespace crossflash::conformance
