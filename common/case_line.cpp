// SPDX-License-Identifier: MIT
// case_line.cpp: the parser and the formatter of case lines. Each word is one row of a table with
// both directions side by side, so that neither can know a word that the other does not.
#include "common/case_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>

namespace crossflash {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

template <typename Number>
bool parse_number(std::string_view text, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && end == text.data() + text.size();
}

// "33x65": two numbers; "33": both the same, if `twice`.
bool parse_pair(std::string_view text, char separator, bool twice, std::int64_t* a,
                std::int64_t* b) {
  const auto at = text.find(separator);
  if (at == std::string_view::npos) {
    if (!twice || !parse_number(text, a)) return false;
    *b = *a;
    return true;
  }
  return parse_number(text.substr(0, at), a) && parse_number(text.substr(at + 1), b);
}

std::string format_pair(char separator, std::int64_t a, std::int64_t b) {
  return a == b ? fmt::format("{}", a) : fmt::format("{}{}{}", a, separator, b);
}

// A choice by name: position in `names` is the value.
template <typename Enum, std::size_t N>
bool parse_name(const char* const (&names)[N], std::string_view text, Enum* out) {
  const auto found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return false;
  *out = static_cast<Enum>(found - std::begin(names));
  return true;
}

template <typename Enum, std::size_t N>
std::string format_name(const char* const (&names)[N], Enum value) {
  const auto n = static_cast<std::size_t>(value);
  return n < N ? names[n] : fmt::format("{}", n);
}

constexpr const char* kTypes[] = {"f32", "f16", "bf16"};
constexpr const char* kCausal[] = {"none", "top-left", "bottom-right"};
constexpr const char* kLayouts[] = {"bshd", "bhsd", "packed", "padded"};
constexpr const char* kFills[] = {"normal", "large", "ties", "tiny"};
constexpr const char* kRows[] = {"all", "lengths", "offsets"};
constexpr const char* kPasses[] = {"none", "forward", "backward",
                                   "both"};  // crossflash_problem's bits

// "hqk": letters of bhqk, each at most once.
bool parse_axes(std::string_view text, Axes* out) {
  Axes axes{false, false, false, false};
  bool* const flags[] = {&axes.batch, &axes.head, &axes.seq_q, &axes.seq_k};
  for (const char letter : text) {
    const auto at = std::string_view("bhqk").find(letter);
    if (at == std::string_view::npos || *flags[at]) return false;
    *flags[at] = true;
  }
  *out = axes;
  return !text.empty();
}

std::string format_axes(const Axes& axes) {
  return fmt::format("{}{}{}{}", axes.batch ? "b" : "", axes.head ? "h" : "", axes.seq_q ? "q" : "",
                     axes.seq_k ? "k" : "");
}

bool parse_rows(std::string_view text, crossflash_problem* p) {
  const auto at = std::min(text.find('/'), text.size());
  const std::string_view keys = at == text.size() ? text : text.substr(at + 1);
  return parse_name(kRows, text.substr(0, at), &p->rows_q) && parse_name(kRows, keys, &p->rows_k);
}

std::string format_rows(const crossflash_problem& p) {
  const std::string queries = format_name(kRows, p.rows_q), keys = format_name(kRows, p.rows_k);
  return queries == keys ? queries : queries + '/' + keys;
}

// "33x64,0x16"
bool parse_lengths(std::string_view text, std::vector<Lengths>* out) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    Lengths one{};
    if (!parse_pair(text.substr(begin, end - begin), 'x', true, &one.q, &one.k)) return false;
    if (one.q < 0 || one.k < 0) return false;
    out->push_back(one);
    begin = end + 1;
  }
  return true;
}

std::string format_lengths(const std::vector<Lengths>& lengths) {
  std::string text;
  for (const Lengths& one : lengths)
    text += fmt::format("{}{}x{}", text.empty() ? "" : ",", one.q, one.k);
  return text;
}

struct Word {
  const char* key;
  const char* meaning;  // completes "it must be ..."
  bool (*parse)(std::string_view text, Case* c);
  std::string (*format)(const Case& c);
};

constexpr Word kWords[] = {
    {"batch", "a whole number",
     [](std::string_view t, Case* c) { return parse_number(t, &c->problem.batch); },
     [](const Case& c) { return fmt::format("{}", c.problem.batch); }},
    {"seq", "QxK or one number for both, as in seq=33x65",
     [](std::string_view t, Case* c) {
       return parse_pair(t, 'x', true, &c->problem.seq_q, &c->problem.seq_k);
     },
     [](const Case& c) { return format_pair('x', c.problem.seq_q, c.problem.seq_k); }},
    {"heads", "Q/KV or one number for both, as in heads=8/2",
     [](std::string_view t, Case* c) {
       return parse_pair(t, '/', true, &c->problem.heads_q, &c->problem.heads_kv);
     },
     [](const Case& c) { return format_pair('/', c.problem.heads_q, c.problem.heads_kv); }},
    {"d", "a whole number",
     [](std::string_view t, Case* c) { return parse_number(t, &c->problem.d); },
     [](const Case& c) { return fmt::format("{}", c.problem.d); }},
    {"dv", "a whole number",
     [](std::string_view t, Case* c) { return parse_number(t, &c->problem.d_v); },
     [](const Case& c) { return fmt::format("{}", c.problem.d_v); }},
    {"type", "f32, f16 or bf16",
     [](std::string_view t, Case* c) { return parse_name(kTypes, t, &c->problem.dtype); },
     [](const Case& c) { return format_name(kTypes, c.problem.dtype); }},
    {"scale", "a number",
     [](std::string_view t, Case* c) { return parse_number(t, &c->problem.scale); },
     [](const Case& c) { return fmt::format("{}", c.problem.scale); }},
    {"causal", "none, top-left or bottom-right",
     [](std::string_view t, Case* c) { return parse_name(kCausal, t, &c->problem.causal); },
     [](const Case& c) { return format_name(kCausal, c.problem.causal); }},
    {"window", "LEFT,RIGHT with -1 for open, as in window=16,0",
     [](std::string_view t, Case* c) {
       return parse_pair(t, ',', false, &c->problem.window_left, &c->problem.window_right);
     },
     [](const Case& c) {
       return fmt::format("{},{}", c.problem.window_left, c.problem.window_right);
     }},
    {"dropout", "a number",
     [](std::string_view t, Case* c) { return parse_number(t, &c->problem.dropout); },
     [](const Case& c) { return fmt::format("{}", c.problem.dropout); }},
    {"seed", "a whole number from 0",
     [](std::string_view t, Case* c) { return parse_number(t, &c->seed); },
     [](const Case& c) { return fmt::format("{}", c.seed); }},
    {"offset", "a whole number from 0",
     [](std::string_view t, Case* c) { return parse_number(t, &c->offset); },
     [](const Case& c) { return fmt::format("{}", c.offset); }},
    {"data", "a whole number from 0",
     [](std::string_view t, Case* c) { return parse_number(t, &c->data_seed); },
     [](const Case& c) { return fmt::format("{}", c.data_seed); }},
    {"layout", "bshd, bhsd, packed or padded",
     [](std::string_view t, Case* c) { return parse_name(kLayouts, t, &c->layout); },
     [](const Case& c) { return format_name(kLayouts, c.layout); }},
    {"fill", "normal, large, ties or tiny",
     [](std::string_view t, Case* c) { return parse_name(kFills, t, &c->fill); },
     [](const Case& c) { return format_name(kFills, c.fill); }},
    {"passes", "forward, backward or both",
     [](std::string_view t, Case* c) { return parse_name(kPasses, t, &c->problem.passes); },
     [](const Case& c) { return format_name(kPasses, c.problem.passes); }},
    {"softcap", "a number",
     [](std::string_view t, Case* c) { return parse_number(t, &c->problem.softcap); },
     [](const Case& c) { return fmt::format("{}", c.problem.softcap); }},
    {"bias", "the letters of bhqk along which it varies, as in bias=hqk",
     [](std::string_view t, Case* c) {
       c->problem.bias = std::max(c->problem.bias, CROSSFLASH_GIVEN);
       return parse_axes(t, &c->bias_axes);
     },
     [](const Case& c) {
       return c.problem.bias == CROSSFLASH_ABSENT ? "" : format_axes(c.bias_axes);
     }},
    {"bias-type", "own (the tensors' type), f32, f16 or bf16",
     [](std::string_view t, Case* c) {
       return t == "own" || parse_name(kTypes, t, &c->problem.bias_dtype);
     },
     [](const Case& c) {
       const bool own =
           c.problem.bias == CROSSFLASH_ABSENT || c.problem.bias_dtype == c.problem.dtype;
       return own ? "own" : format_name(kTypes, c.problem.bias_dtype);
     }},
    {"mask", "the letters of bhqk along which it varies, k among them, as in mask=bk",
     [](std::string_view t, Case* c) {
       c->problem.mask = 1;
       return parse_axes(t, &c->mask_axes) && c->mask_axes.seq_k;
     },
     [](const Case& c) { return c.problem.mask == 0 ? "" : format_axes(c.mask_axes); }},
    {"rows", "all, lengths or offsets, or two of them as in rows=all/lengths",
     [](std::string_view t, Case* c) { return parse_rows(t, &c->problem); },
     [](const Case& c) { return format_rows(c.problem); }},
    {"lens", "QxK for each sequence, as in lens=33x64,0x16",
     [](std::string_view t, Case* c) { return parse_lengths(t, &c->lengths); },
     [](const Case& c) { return format_lengths(c.lengths); }},
    {"row-bits", "a whole number",
     [](std::string_view t, Case* c) { return parse_number(t, &c->problem.row_bits); },
     [](const Case& c) { return fmt::format("{}", c.problem.row_bits); }},
    {"page", "a whole number",
     [](std::string_view t, Case* c) { return parse_number(t, &c->problem.page_size); },
     [](const Case& c) { return fmt::format("{}", c.problem.page_size); }},
};

struct Flag {
  const char* key;
  void (*raise)(crossflash_problem* p);
  bool (*raised)(const crossflash_problem& p);
};

constexpr Flag kFlags[] = {
    {"alibi", [](crossflash_problem* p) { p->alibi = 1; },
     [](const crossflash_problem& p) { return p.alibi != 0; }},
    {"sink", [](crossflash_problem* p) { p->sink = std::max(p->sink, CROSSFLASH_GIVEN); },
     [](const crossflash_problem& p) { return p.sink == CROSSFLASH_GIVEN; }},
    {"dsink", [](crossflash_problem* p) { p->sink = CROSSFLASH_WITH_GRADIENT; },
     [](const crossflash_problem& p) { return p.sink == CROSSFLASH_WITH_GRADIENT; }},
    {"dbias", [](crossflash_problem* p) { p->bias = CROSSFLASH_WITH_GRADIENT; },
     [](const crossflash_problem& p) { return p.bias == CROSSFLASH_WITH_GRADIENT; }},
    {"deterministic", [](crossflash_problem* p) { p->deterministic = 1; },
     [](const crossflash_problem& p) { return p.deterministic != 0; }},
    {"device-seed", [](crossflash_problem* p) { p->random_on_device = 1; },
     [](const crossflash_problem& p) { return p.random_on_device != 0; }},
};

// One word into the case; `seen` has a bit for each key met before, words first.
Status parse_word(std::string_view word, Case* c, std::uint32_t* seen) {
  const auto equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const auto first_time = [seen](std::ptrdiff_t n) {
    const std::uint32_t bit = std::uint32_t{1} << n;
    const bool first = (*seen & bit) == 0;
    *seen |= bit;
    return first;
  };

  const auto* flag = std::find_if(std::begin(kFlags), std::end(kFlags),
                                  [&](const Flag& f) { return key == f.key; });
  if (flag != std::end(kFlags)) {
    if (equals != std::string_view::npos)
      return invalid("\"{}\" has a value; the word {} stands alone", word, key);
    if (!first_time(std::ssize(kWords) + (flag - kFlags)))
      return invalid("\"{}\" says {} a second time", word, key);
    flag->raise(&c->problem);
    return {};
  }

  const auto* known = std::find_if(std::begin(kWords), std::end(kWords),
                                   [&](const Word& w) { return key == w.key; });
  if (known == std::end(kWords)) return invalid("\"{}\" is not a word of a case line", word);
  if (equals == std::string_view::npos)
    return invalid("\"{}\" has no value; it must be {}", word, known->meaning);
  if (!first_time(known - kWords)) return invalid("\"{}\" says {} a second time", word, key);
  if (!known->parse(word.substr(equals + 1), c))
    return invalid("\"{}\" cannot be read; it must be {}", word, known->meaning);
  return {};
}

}  // namespace

Case default_case() {
  Case c{};
  crossflash_problem_init(&c.problem);
  c.problem.passes = CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD;
  c.problem.batch = 1;
  c.problem.seq_q = c.problem.seq_k = 64;
  c.problem.heads_q = c.problem.heads_kv = 1;
  c.problem.d = c.problem.d_v = 64;
  return c;
}

namespace {

// Unless they are said there are as many sequences as lengths, and the longest is as long.
void follow_lengths(bool batch, bool seq, Case* c) {
  if (batch) c->problem.batch = std::ssize(c->lengths);
  if (!seq) return;
  c->problem.seq_q = c->problem.seq_k = 0;
  for (const Lengths& one : c->lengths) {
    c->problem.seq_q = std::max(c->problem.seq_q, one.q);
    c->problem.seq_k = std::max(c->problem.seq_k, one.k);
  }
}

// What no layout of tensors can say.
Status check_lengths(const Case& c) {
  const crossflash_problem& p = c.problem;
  if (!c.lengths.empty() && !has_lengths(p))
    return invalid("\"lens={}\" needs rows=lengths or rows=offsets", format_lengths(c.lengths));
  if (!c.lengths.empty() && std::ssize(c.lengths) != p.batch)
    return invalid("\"lens={}\" has {} sequences; batch is {}", format_lengths(c.lengths),
                   c.lengths.size(), p.batch);
  if (c.layout != Layout::packed_qkv) return {};
  if (p.seq_q != p.seq_k)
    return invalid("\"layout=packed\" needs as many keys as queries; seq is {}x{}", p.seq_q,
                   p.seq_k);
  if (p.page_size != 0) return invalid("\"layout=packed\" has no pages; page is {}", p.page_size);
  const bool offsets = p.rows_q == CROSSFLASH_ROWS_OFFSETS || p.rows_k == CROSSFLASH_ROWS_OFFSETS;
  const bool alike = std::all_of(c.lengths.begin(), c.lengths.end(),
                                 [](const Lengths& one) { return one.q == one.k; });
  if (offsets && (p.rows_q != p.rows_k || !alike))
    return invalid("\"layout=packed\" needs keys packed like the queries; rows is {}, lens {}",
                   format_rows(p), format_lengths(c.lengths));
  return {};
}

}  // namespace

Status parse_case(std::string_view line, Case* out) {
  Case c = default_case();
  crossflash_problem& p = c.problem;
  // What follows another word unless it is said, whichever comes first.
  bool has_dv = false, has_seq = false, has_batch = false, has_bias_type = false;
  std::uint32_t seen = 0;
  static_assert(std::size(kWords) + std::size(kFlags) <= 32);

  for (auto begin = line.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const auto end = std::min(line.find_first_of(kBlanks, begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    CROSSFLASH_TRY(parse_word(word, &c, &seen));
    has_dv = has_dv || word.starts_with("dv=");
    has_seq = has_seq || word.starts_with("seq=");
    has_batch = has_batch || word.starts_with("batch=");
    has_bias_type = has_bias_type || (word.starts_with("bias-type=") && word != "bias-type=own");
    begin = line.find_first_not_of(kBlanks, end);
  }
  if (!has_dv) p.d_v = p.d;
  if (!has_bias_type && p.bias != CROSSFLASH_ABSENT) p.bias_dtype = p.dtype;
  if (!c.lengths.empty()) follow_lengths(!has_batch, !has_seq, &c);
  CROSSFLASH_TRY(check_lengths(c));
  *out = c;
  return {};
}

std::string format_case(const Case& c) {
  Case defaults = default_case();
  defaults.problem.d_v = c.problem.d;
  if (!c.lengths.empty()) {
    defaults.lengths = c.lengths;
    follow_lengths(true, true, &defaults);
    defaults.lengths.clear();
  }
  std::string line;
  const auto append = [&line](const std::string& word) {
    if (!line.empty()) line += ' ';
    line += word;
  };
  for (const Word& word : kWords) {
    const std::string value = word.format(c);
    if (value != word.format(defaults)) append(fmt::format("{}={}", word.key, value));
  }
  for (const Flag& flag : kFlags)
    if (flag.raised(c.problem)) append(flag.key);
  return line.empty() ? "batch=1" : line;  // an empty line would be no case
}

std::string_view case_text(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const auto begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1);
}

Status parse_cases(std::string_view text, std::vector<Case>* out) {
  int number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = case_text(text.substr(begin, end - begin));
    if (!line.empty()) {
      Case c;
      const Status status = parse_case(line, &c);
      if (!status.ok()) return invalid("line {}: {}", number, status.text());
      out->push_back(c);
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace crossflash
