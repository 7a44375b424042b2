// SPDX-License-Identifier: MIT
// parallel.h: body(0) ... body(count - 1), each once, spread over the machine's cores; returns when
// all are done. Bodies must write disjoint memory, and then the outcome does not depend on how many
// threads there were. The first exception a body throws stops the rest and is thrown here.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace crossflash {

inline unsigned hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

template <typename Body>
void parallel_for(std::int64_t count, const Body& body) {
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;

  const auto work = [&]() noexcept {
    try {
      for (std::int64_t n = next++; n < count; n = next++) body(n);
    } catch (...) {
      next = count;
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  };

  {
    const auto helpers = std::min<std::int64_t>(count, hardware_threads()) - 1;
    std::vector<std::jthread> threads;  // joined on the way out
    try {
      for (std::int64_t n = 0; n < helpers; ++n) threads.emplace_back(work);
    } catch (const std::system_error&) {
      // Out of threads: those that started, and this one, do all of it.
    }
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace crossflash
