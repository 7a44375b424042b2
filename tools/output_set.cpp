// SPDX-License-Identifier: MIT
// output_set.cpp: see output_set.h. The temporary names are also kept where a signal handler can
// reach them: fixed storage, published by a counter.
#include "tools/output_set.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tools/exit_code.h"

namespace crossflash::tool {
namespace {

constexpr std::size_t kMaxFiles = 8;
char temporary_names[kMaxFiles][PATH_MAX];
std::atomic<std::size_t> temporary_count{0};
static_assert(std::atomic<std::size_t>::is_always_lock_free, "read in a signal handler");

void remove_temporaries(int signal) {
  for (std::size_t i = 0; i < temporary_count; ++i) unlink(temporary_names[i]);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void write_all(int descriptor, const void* data, std::size_t bytes, const std::string& name) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t put = write(descriptor, static_cast<const char*>(data) + done, bytes - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw bad_input("{}: cannot be written: {}", name, std::strerror(errno));
    done += static_cast<std::size_t>(put);
  }
}

bool is_directory(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

OutputSet::OutputSet(std::string directory) : directory_(std::move(directory)) {
  temporary_count = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, remove_temporaries);
  if (mkdir(directory_.c_str(), 0777) == 0) {
    made_directory_ = true;
  } else if (!is_directory(directory_)) {
    throw bad_input("{}: cannot be made a directory: {}", directory_, std::strerror(errno));
  }
}

OutputSet::~OutputSet() {
  if (!committed_) {
    for (const File& file : files_) unlink(file.temporary.c_str());
    if (made_directory_) rmdir(directory_.c_str());
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
}

void OutputSet::add(const std::string& name, const NpyArray& array) {
  File file{fmt::format("{}/.{}.{}.part", directory_, name, getpid()),
            fmt::format("{}/{}", directory_, name)};
  const std::size_t slot = files_.size();
  if (slot >= kMaxFiles || file.temporary.size() >= PATH_MAX)
    throw bad_input("{}: its name is too long", file.final);
  if (is_directory(file.final)) throw bad_input("{}: is a directory, not a file", file.final);
  std::copy_n(file.temporary.c_str(), file.temporary.size() + 1, temporary_names[slot]);
  temporary_count = slot + 1;  // before the file is there, so that no signal finds it unknown
  const int descriptor =
      open(file.temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0)
    throw bad_input("{}: cannot be written: {}", file.final, std::strerror(errno));
  files_.push_back(file);
  try {
    const std::string prefix = npy_prefix(array.type, array.shape);
    write_all(descriptor, prefix.data(), prefix.size(), file.final);
    write_all(descriptor, array.data.data(), array.data.size(), file.final);
  } catch (...) {
    close(descriptor);
    throw;
  }
  // Some file systems tell of a full disk only here.
  if (fsync(descriptor) != 0 && errno != EINVAL) {
    const int error = errno;
    close(descriptor);
    throw bad_input("{}: cannot be written: {}", file.final, std::strerror(error));
  }
  if (close(descriptor) != 0)
    throw bad_input("{}: cannot be written: {}", file.final, std::strerror(errno));
}

void OutputSet::commit() {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (std::rename(files_[i].temporary.c_str(), files_[i].final.c_str()) == 0) continue;
    const int error = errno;
    for (std::size_t renamed = 0; renamed < i; ++renamed) unlink(files_[renamed].final.c_str());
    throw bad_input("{}: cannot be written: {}", files_[i].final, std::strerror(error));
  }
  committed_ = true;
}

}  // namespace crossflash::tool
