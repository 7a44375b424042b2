// SPDX-License-Identifier: MIT
// npy_header.cpp: the dictionary in a .npy header: a Python literal with exactly the keys descr,
// fortran_order and shape, in any order. The parser accepts what NumPy writes and no more.
#include <charconv>
#include <optional>

#include "tools/exit_code.h"
#include "tools/npy.h"

namespace crossflash::tool {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  NpyHeader parse() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::int64_t>> shape;
    expect('{', "a dictionary");
    while (!accept('}')) {
      const std::string key = string("a key");
      expect(':', "a colon behind a key");
      if (key == "descr" && !descr) {
        if (peek() == '[')
          throw bad_input("{}: is a structured array; float32 or float16 is read", path_);
        descr = string("descr's value");
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = tuple();
      } else {
        throw fault("each of the keys descr, fortran_order and shape once");
      }
      if (!accept(',') && peek() != '}') throw fault("a comma or a closing brace");
    }
    if (peek() != '\0') throw fault("nothing behind the dictionary");
    if (!descr || !fortran_order || !shape)
      throw bad_input("{}: its header lacks the key {}", path_,
                      !descr           ? "descr"
                      : !fortran_order ? "fortran_order"
                                       : "shape");
    return {*descr, *fortran_order, *shape};
  }

 private:
  Failure fault(const std::string& wanted) const {
    return bad_input("{}: its header is malformed: expected {}", path_, wanted);
  }

  void skip_space() {
    const auto at = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at);
  }
  char peek() {
    skip_space();
    // A NUL byte in the text is a fault wherever it stands; as '\1' it matches nothing.
    return rest_.empty() ? '\0' : rest_.front() == '\0' ? '\1' : rest_.front();
  }
  bool accept(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c, const char* what) {
    if (!accept(c)) throw fault(what);
  }

  std::string string(const char* what) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') throw fault(std::string(what) + " in quotes");
    const auto end = rest_.find(quote, 1);
    if (end == std::string_view::npos) throw fault(std::string(what) + " in quotes");
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view name = value ? "True" : "False";
      if (!rest_.starts_with(name)) continue;
      rest_.remove_prefix(name.size());
      return value;
    }
    throw fault("True or False for fortran_order");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(', "a tuple for shape");
    bool comma = true;
    while (!accept(')')) {
      if (!comma) throw fault("a comma between dimensions");
      values.push_back(dimension());
      comma = accept(',');
    }
    if (values.size() == 1 && !comma) throw fault("a tuple for shape");
    return values;
  }

  std::int64_t dimension() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const std::string word(rest_.substr(0, static_cast<std::size_t>(end - rest_.data())));
    if (error == std::errc::result_out_of_range)
      throw bad_input("{}: its header has a dimension of {}, which overflows", path_, word);
    if (error != std::errc{}) throw fault("whole numbers as dimensions");
    if (value < 0) throw bad_input("{}: its header has a negative dimension, {}", path_, value);
    rest_.remove_prefix(word.size());
    return value;
  }

  std::string_view rest_;
  const std::string& path_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& path) {
  return Parser(text, path).parse();
}

}  // namespace crossflash::tool
