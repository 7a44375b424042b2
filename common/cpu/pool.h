// SPDX-License-Identifier: MIT
// pool.h: objects that are made when they run out and kept for the next borrower, so that a plan
// that has run once allocates nothing when it runs again. Borrowers may be of any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace crossflash::cpu {

template <typename T>
class Pool {
  struct Return {
    Pool* pool;
    void operator()(T* object) const { pool->put(object); }
  };

 public:
  using Borrowed = std::unique_ptr<T, Return>;

  explicit Pool(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}

  Borrowed borrow() {
    std::unique_ptr<T> object;
    {
      const std::lock_guard lock(mutex_);
      if (free_.empty()) {
        free_.reserve(++made_);  // so that giving back cannot fail
      } else {
        object = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!object) object = make_();
    return Borrowed(object.release(), Return{this});
  }

 private:
  void put(T* object) {
    std::unique_ptr<T> owned(object);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(owned));
  }

  std::function<std::unique_ptr<T>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
  std::size_t made_ = 0;
};

}  // namespace crossflash::cpu
