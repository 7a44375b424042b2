// SPDX-License-Identifier: MIT
// status.h: how every internal call answers: a code and, unless ok, one sentence that names the
// field and the value. It becomes the C API's status and last error in one place (api.cpp).
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "crossflash/crossflash.h"

namespace crossflash {

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(crossflash_status code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const { return code_ == CROSSFLASH_OK; }
  crossflash_status code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  crossflash_status code_ = CROSSFLASH_OK;
  std::string text_;
};

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {CROSSFLASH_INVALID, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Status unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return {CROSSFLASH_UNSUPPORTED, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Status device_error(fmt::format_string<Args...> format, Args&&... args) {
  return {CROSSFLASH_DEVICE_ERROR, fmt::format(format, std::forward<Args>(args)...)};
}

#define CROSSFLASH_TRY(expression)                                   \
  do {                                                               \
    ::crossflash::Status crossflash_try_status_ = (expression);      \
    if (!crossflash_try_status_.ok()) return crossflash_try_status_; \
  } while (false)

}  // namespace crossflash
