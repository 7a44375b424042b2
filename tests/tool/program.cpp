// SPDX-License-Identifier: MIT
// program.cpp: see program.h.
#include "tests/tool/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace crossflash::tool_test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> clean_environment() {
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e)
    if (!std::string(*e).starts_with("CROSSFLASH_")) out.emplace_back(*e);
  return out;
}

Outcome spawn(std::vector<std::string> command) {
  const Folder folder;
  const std::string out = folder / "out", err = folder / "err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  std::vector<std::string> environment = clean_environment();
  pid_t child = 0;
  const int error = posix_spawn(&child, command.front().c_str(), &actions, nullptr,
                                pointers(command).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) != child)
    throw std::runtime_error(command.front() + " cannot be run");
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_bytes(out),
          read_bytes(err)};
}

}  // namespace

Outcome run_program(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {CROSSFLASH_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return spawn(command);
}

Outcome run_in_shell(const std::string& setup, const std::vector<std::string>& arguments,
                     const std::string& redirect) {
  std::vector<std::string> command = {"/bin/sh", "-c", setup + "; exec \"$0\" \"$@\" " + redirect,
                                      CROSSFLASH_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return spawn(command);
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "crossflash-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error(path + " cannot be written");
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  if (!std::filesystem::is_directory(directory)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool one_line(const std::string& text) {
  return text.size() > 1 && text.find('\n') == text.size() - 1;
}

}  // namespace crossflash::tool_test
