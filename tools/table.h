// SPDX-License-Identifier: MIT
// table.h: rows of text as aligned columns, and results as JSON; both to stdout.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace crossflash::tool {

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
    std::size_t max_width = 60;  // longer cells are cut and end in "..."
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // As many cells as there are columns.
  void add_row(std::vector<std::string> cells);
  // A line of its own, across the columns.
  void add_heading(std::string text);
  // A thin line between two groups of rows.
  void add_rule();
  std::string text() const;

 private:
  struct Row {
    std::vector<std::string> cells;  // none: a rule or a heading
    std::string heading;             // empty: a rule
  };

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// "1.2e-07", "0"; "nan" stays visible.
std::string format_error(double error);
// Three significant digits: "0.123", "12.3", "1234".
std::string format_figure(double value);
// "0 B", "12.5 KiB", "3.0 MiB".
std::string format_bytes(std::uint64_t bytes);

// Text that is not UTF-8 (a driver's name, a path) is replaced, not refused.
void print_json(const nlohmann::json& value);

}  // namespace crossflash::tool
