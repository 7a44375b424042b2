// SPDX-License-Identifier: MIT
// program.h: runs the program crossflash as a user does and keeps what it said; and a folder that
// goes away with the test.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace crossflash::tool_test {

struct Outcome {
  int exit = -1;  // 128 + n: ended by signal n
  std::string out, err;
};

// Runs crossflash with these arguments; CROSSFLASH_* of the caller's environment are not passed on.
Outcome run_program(const std::vector<std::string>& arguments);
// The same behind a shell that first does `setup`, as in "ulimit -f 1"; `redirect` follows the
// command, as in ">/dev/full".
Outcome run_in_shell(const std::string& setup, const std::vector<std::string>& arguments,
                     const std::string& redirect = "");

class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);
// Names in a directory, hidden ones too; empty if there is no such directory.
std::vector<std::string> names_in(const std::string& directory);
// Whether the text is exactly one line.
bool one_line(const std::string& text);

}  // namespace crossflash::tool_test
