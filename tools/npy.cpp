// SPDX-License-Identifier: MIT
// npy.cpp: reads and describes .npy files; see npy.h. The file's size is compared with what the
// header promises before any memory is taken, so that a lying header costs nothing.
#include "tools/npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/exit_code.h"

namespace crossflash::tool {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionEnd = 8;         // magic, major, minor
constexpr std::uint64_t kMaxHeader = 1 << 16;  // NumPy's are a few hundred bytes

// A regular file that is open for reading.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path) {
    // O_NONBLOCK: a named pipe is refused below instead of waited for.
    descriptor_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor_ < 0) throw bad_input("{}: cannot be opened: {}", path, std::strerror(errno));
    struct stat status {};
    const bool known = fstat(descriptor_, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
      close(descriptor_);
      throw bad_input("{}: is {}, not a file", path,
                      known && S_ISDIR(status.st_mode) ? "a directory" : "a device or a pipe");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~InputFile() { close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const { return size_; }
  std::uint64_t left() const { return size_ - at_; }

  void read(void* destination, std::size_t bytes, const char* what) {
    if (bytes > left())
      throw bad_input("{}: is truncated: {} ends after {} of {} bytes", path_, what, left(), bytes);
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t got = ::read(descriptor_, static_cast<char*>(destination) + done, bytes - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw bad_input("{}: cannot be read: {}", path_, std::strerror(errno));
      if (got == 0) throw bad_input("{}: shrank while it was read", path_);
      done += static_cast<std::size_t>(got);
    }
    at_ += bytes;
  }

 private:
  const std::string& path_;
  int descriptor_;
  std::uint64_t size_ = 0, at_ = 0;
};

std::uint64_t little_endian(std::span<const unsigned char> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

std::string read_header(InputFile& file, const std::string& path) {
  char start[kVersionEnd];
  const std::size_t magic = std::min<std::uint64_t>(file.size(), kMagic.size());
  file.read(start, magic, "its magic");
  if (std::string_view(start, magic) != kMagic.substr(0, magic))
    throw bad_input("{}: is not a .npy file: its magic is wrong", path);
  file.read(start + magic, kVersionEnd - magic, "its magic and version");
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0)
    throw bad_input("{}: has .npy version {}.{}; 1.0, 2.0 and 3.0 are read", path, major, minor);

  unsigned char length_bytes[4];
  const std::size_t length_size = major == 1 ? 2 : 4;
  file.read(length_bytes, length_size, "its header's length");
  const std::uint64_t length = little_endian({length_bytes, length_size});
  if (length > kMaxHeader)
    throw bad_input("{}: its header claims {} bytes; at most {} are read", path, length,
                    kMaxHeader);
  std::string header(length, '\0');
  file.read(header.data(), header.size(), "its header");
  return header;
}

struct Element {
  const char* descr;
  NpyType type;
};

NpyType element_type(const std::string& descr, NpyKind kind, const std::string& path) {
  constexpr Element kKinds[][2] = {{{"<f4", NpyType::f32}, {"<f2", NpyType::f16}},
                                   {{"<i4", NpyType::i32}, {"<i8", NpyType::i64}},
                                   {{"|b1", NpyType::u8}, {"|u1", NpyType::u8}}};
  constexpr const char* kRead[] = {"little-endian float32 ('<f4') and float16 ('<f2') are read",
                                   "little-endian int32 ('<i4') and int64 ('<i8') are read",
                                   "bool ('|b1') and uint8 ('|u1') are read"};
  const auto n = static_cast<std::size_t>(kind);
  for (const Element& element : kKinds[n])
    if (descr == element.descr) return element.type;
  if (descr.starts_with('>'))
    throw bad_input("{}: is big-endian ('{}'); {}", path, descr, kRead[n]);
  throw bad_input("{}: has elements of type '{}'; {}", path, descr, kRead[n]);
}

std::uint64_t data_bytes(const NpyArray& array, const std::string& path) {
  std::uint64_t bytes = npy_type_size(array.type);
  for (const std::int64_t extent : array.shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
      throw bad_input("{}: its shape {} overflows", path, format_shape(array.shape));
  return bytes;
}

}  // namespace

const char* npy_type_name(NpyType type) {
  constexpr const char* kNames[] = {"float32", "float16", "uint8", "int32", "int64"};
  return kNames[static_cast<std::size_t>(type)];
}

std::size_t npy_type_size(NpyType type) {
  constexpr std::size_t kSizes[] = {4, 2, 1, 4, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

std::string format_shape(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

NpyArray read_npy(const std::string& path, NpyKind kind) {
  InputFile file(path);
  const NpyHeader header = parse_npy_header(read_header(file, path), path);
  if (header.fortran_order) throw bad_input("{}: is in Fortran order; C order is read", path);
  NpyArray array{element_type(header.descr, kind, path), header.shape, {}};
  const std::uint64_t bytes = data_bytes(array, path);
  if (bytes > file.left())
    throw bad_input("{}: is truncated: shape {} of {} needs {} bytes of data, {} are there", path,
                    format_shape(array.shape), npy_type_name(array.type), bytes, file.left());
  if (bytes < file.left())
    throw bad_input("{}: {} bytes follow the data of shape {} of {}", path, file.left() - bytes,
                    format_shape(array.shape), npy_type_name(array.type));
  array.data.resize(bytes);
  file.read(array.data.data(), array.data.size(), "its data");
  return array;
}

std::string npy_prefix(NpyType type, std::span<const std::int64_t> shape) {
  constexpr const char* kDescr[] = {"<f4", "<f2", "|u1", "<i4", "<i8"};
  const char* descr = kDescr[static_cast<std::size_t>(type)];
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   descr, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t kAlignment = 64;  // of the data in the file, so that it can be mapped
  const std::size_t used = kVersionEnd + 2 + header.size() + 1;
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string prefix(kMagic);
  prefix += '\1';
  prefix += '\0';
  prefix += static_cast<char>(header.size() & 0xff);
  prefix += static_cast<char>(header.size() >> 8);
  return prefix + header;
}

}  // namespace crossflash::tool
