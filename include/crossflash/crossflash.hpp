// SPDX-License-Identifier: MIT
//
// crossflash.hpp: the C API as C++: objects that own, exceptions that say what the C API says.
// Header-only; the ABI is crossflash.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "crossflash/crossflash.h"

// The inline namespace keeps these classes apart from the library's inner ones of the same names.
namespace crossflash {
inline namespace v0 {

// What a call that did not return CROSSFLASH_OK throws.
class Error : public std::runtime_error {
 public:
  Error(crossflash_status status, const char* text) : std::runtime_error(text), status_(status) {}
  crossflash_status status() const { return status_; }

 private:
  crossflash_status status_;
};

inline void check(crossflash_status status) {
  if (status != CROSSFLASH_OK) throw Error(status, crossflash_last_error());
}

// A forward problem on contiguous [batch, seq, heads, d] tensors; change its fields as needed.
inline crossflash_problem make_problem(std::int64_t batch, std::int64_t seq_q, std::int64_t seq_k,
                                       std::int64_t heads_q, std::int64_t heads_kv, std::int64_t d,
                                       crossflash_dtype dtype = CROSSFLASH_F32) {
  crossflash_problem p;
  crossflash_problem_init(&p);
  p.dtype = dtype;
  p.batch = batch;
  p.seq_q = seq_q;
  p.seq_k = seq_k;
  p.heads_q = heads_q;
  p.heads_kv = heads_kv;
  p.d = d;
  p.d_v = d;
  return p;
}

inline crossflash_args make_args() {
  crossflash_args args{};
  args.struct_size = sizeof args;
  return args;
}

class Device {
 public:
  // `backend` as in crossflash_device_options: "cpu", "vulkan:1", "" for the best there is.
  explicit Device(const std::string& backend = {}, const std::string& variant = {},
                  const std::string& limits = {}) {
    crossflash_device_options options{};
    options.struct_size = sizeof options;
    if (!backend.empty()) options.backend = backend.c_str();
    if (!variant.empty()) options.variant = variant.c_str();
    if (!limits.empty()) options.limits = limits.c_str();
    crossflash_device* device = nullptr;
    check(crossflash_device_open(&options, &device));
    device_.reset(device);
  }

  crossflash_device* get() const { return device_.get(); }

  crossflash_device_info info() const {
    crossflash_device_info info{};
    info.struct_size = sizeof info;
    check(crossflash_device_get_info(get(), &info));
    return info;
  }

  std::vector<std::string> variants() const {
    std::vector<std::string> names;
    while (const char* name = crossflash_device_variant(get(), names.size()))
      names.emplace_back(name);
    return names;
  }

  void wait() const { check(crossflash_device_wait(get())); }

 private:
  struct Close {
    void operator()(crossflash_device* device) const { crossflash_device_close(device); }
  };
  std::unique_ptr<crossflash_device, Close> device_;
};

// Every device of every backend of this build, usable or not.
inline std::vector<crossflash_device_info> list_devices() {
  std::size_t count = 0;
  check(crossflash_list_devices(nullptr, 0, &count));
  crossflash_device_info empty{};
  empty.struct_size = sizeof empty;
  std::vector<crossflash_device_info> infos(count, empty);
  check(crossflash_list_devices(infos.data(), infos.size(), &count));
  infos.resize(count < infos.size() ? count : infos.size());
  return infos;
}

// Device memory. Must not outlive its Device.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Device& device, std::uint64_t bytes) : device_(device.get()), bytes_(bytes) {
    check(crossflash_buffer_create(device_, bytes, &buffer_));
  }
  template <typename T>
  Buffer(const Device& device, std::span<const T> data) : Buffer(device, data.size_bytes()) {
    upload(data);
  }
  template <typename T>
  Buffer(const Device& device, const std::vector<T>& data)
      : Buffer(device, std::span<const T>(data)) {}
  Buffer(Buffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        buffer_(std::exchange(other.buffer_, {})),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(buffer_, other.buffer_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (device_ != nullptr) crossflash_buffer_destroy(device_, buffer_);
  }

  operator crossflash_buffer() const { return buffer_; }
  std::uint64_t bytes() const { return bytes_; }

  template <typename T>
  void upload(std::span<const T> data) {
    static_assert(std::is_trivially_copyable_v<T>);
    check(crossflash_upload(device_, buffer_, data.data(), data.size_bytes()));
  }
  template <typename T>
  std::vector<T> download() const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> data(bytes_ / sizeof(T));
    check(crossflash_download(device_, data.data(), buffer_, data.size() * sizeof(T)));
    return data;
  }

 private:
  crossflash_device* device_ = nullptr;
  crossflash_buffer buffer_{};
  std::uint64_t bytes_ = 0;
};

class Plan {
 public:
  Plan(const Device& device, const crossflash_problem& problem) {
    crossflash_plan* plan = nullptr;
    check(crossflash_plan_create(device.get(), &problem, &plan));
    plan_.reset(plan);
  }

  crossflash_plan* get() const { return plan_.get(); }
  std::string describe() const { return crossflash_plan_describe(get()); }
  std::uint64_t workspace(std::uint32_t pass) const {
    return crossflash_plan_workspace(get(), pass);
  }
  void forward(const crossflash_args& args) const { check(crossflash_forward(get(), &args)); }
  void backward(const crossflash_args& args) const { check(crossflash_backward(get(), &args)); }
  void append(const crossflash_args& args) const { check(crossflash_append(get(), &args)); }

 private:
  struct Destroy {
    void operator()(crossflash_plan* plan) const { crossflash_plan_destroy(plan); }
  };
  std::unique_ptr<crossflash_plan, Destroy> plan_;
};

}  // namespace v0
}  // namespace crossflash
