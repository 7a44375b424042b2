// SPDX-License-Identifier: MIT
// table.cpp: see table.h. Widths are counted in code points, so that UTF-8 names stay aligned.
#include "tools/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace crossflash::tool {
namespace {

constexpr const char* kGap = "  ";

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

std::string cut(const std::string& text, std::size_t max_width) {
  if (width(text) <= max_width) return text;
  std::size_t kept = 0, end = 0;
  while (end < text.size() && (kept < max_width - 3 || !starts_code_point(text[end])))
    if (starts_code_point(text[end++])) ++kept;
  return text.substr(0, end) + "...";
}

std::string pad(const std::string& text, std::size_t to, Table::Align align) {
  const std::string space(to - std::min(to, width(text)), ' ');
  return align == Table::Align::left ? text + space : space + text;
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = cut(cells[i], columns_[i].max_width);
  rows_.push_back({std::move(cells), {}});
}

void Table::add_heading(std::string text) { rows_.push_back({{}, std::move(text)}); }

void Table::add_rule() { rows_.emplace_back(); }

std::string Table::text() const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = width(columns_[i].title);
    for (const Row& row : rows_)
      if (!row.cells.empty()) widest = std::max(widest, width(row.cells[i]));
    widths.push_back(widest);
    total += widest + (i > 0 ? 2 : 0);
  }
  const auto line = [&](auto&& cell) {
    std::string out;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      out += (i > 0 ? kGap : "") + pad(cell(i), widths[i], columns_[i].align);
    return without_trailing_spaces(out) + "\n";
  };
  const std::string rule = std::string(total, '-') + "\n";
  std::string out = line([&](std::size_t i) { return columns_[i].title; }) + rule;
  for (const Row& row : rows_)
    out += !row.cells.empty()    ? line([&](std::size_t i) { return row.cells[i]; })
           : row.heading.empty() ? rule
                                 : row.heading + "\n";
  return out;
}

std::string format_error(double error) { return error == 0 ? "0" : fmt::format("{:.1e}", error); }

std::string format_figure(double value) {
  if (!std::isfinite(value) || value == 0) return fmt::format("{}", value);
  const int digits = 2 - static_cast<int>(std::floor(std::log10(std::abs(value))));
  return fmt::format("{:.{}f}", value, std::clamp(digits, 0, 6));
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

void print_json(const nlohmann::json& value) {
  fmt::print("{}\n", value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace crossflash::tool
