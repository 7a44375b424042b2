// SPDX-License-Identifier: MIT
// append.h: new keys and values into the cache, keys and queries rotated on the way. Bound by
// memory: 16 lanes move a row of one head, 16 bytes each at a time where it is aligned for that.
#pragma once

#include <type_traits>

#include "common/shared/rotary.h"
#include "hip/kernels/item.h"
#include "hip/tile/element.h"

namespace crossflash::hip {

template <class Arch, class T_, int kHead_, bool kGeneral_>
struct AppendConfig {
  using T = T_;
  static constexpr int kHead = kHead_;
  static constexpr bool kGeneral = kGeneral_;
  static constexpr int kThreads = 256;
  static constexpr int kLanes = 16;  // of a row
  static constexpr int kRows = kThreads / kLanes;
  static constexpr int kColumns = 16 / sizeof(T);  // of a lane at a time
  static constexpr int kSharedBytes = 0;
};

// Which row of which head: blocks are counted by heads, then by rows of new_k, then by sequences.
// Heads are those of keys, of values, and of queries if they are rotated.
struct AppendItem {
  enum class Kind { key, value, query };
  Kind kind;
  int batch, i, head;
  bool there;

  CF_DEVICE AppendItem(const KernelArguments& a, int rows, int row) {
    const auto heads = static_cast<unsigned>(append_heads(a));
    const unsigned tiles = (heads + static_cast<unsigned>(rows) - 1) / static_cast<unsigned>(rows);
    const unsigned n = blockIdx.x / tiles;
    batch = static_cast<int>(n / static_cast<unsigned>(a.seq_q));
    i = static_cast<int>(n % static_cast<unsigned>(a.seq_q));
    head = static_cast<int>(blockIdx.x % tiles) * rows + row;
    there = head < static_cast<int>(heads);
    const int heads_kv = a.heads_q / a.group;
    kind = head < heads_kv ? Kind::key : head < 2 * heads_kv ? Kind::value : Kind::query;
    if (kind != Kind::key) head -= kind == Kind::value ? heads_kv : 2 * heads_kv;
  }
};

// kCount neighbouring elements of memory that is aligned for all of them together.
template <int kCount, class T>
CF_DEVICE void load_run(const T* from, float* to) {
  if constexpr (kCount == 1) {
    to[0] = to_float(*from);
  } else if constexpr (sizeof(T) == 4) {
    struct alignas(kCount * sizeof(T)) Run {
      float x[kCount];
    };
    const Run run = *reinterpret_cast<const Run*>(from);
#pragma unroll
    for (int x = 0; x < kCount; ++x) to[x] = run.x[x];
  } else {
    struct alignas(kCount * sizeof(T)) Run {
      shared::uint words[kCount / 2];
    };
    const Run run = *reinterpret_cast<const Run*>(from);
#pragma unroll
    for (int x = 0; x < kCount; ++x) {
      const shared::uint word = x % 2 == 0 ? run.words[x / 2] : run.words[x / 2] >> 16;
      to[x] = to_float(T{static_cast<std::uint16_t>(word)});
    }
  }
}

// Of the tables, kCount angles from one that is a multiple of it.
template <int kCount>
CF_DEVICE void load_angles(const float* from, float* to) {
  constexpr int kRun = kCount < 4 ? kCount : 4;
#pragma unroll
  for (int x = 0; x < kCount; x += kRun) load_run<kRun>(from + x, to + x);
}

// Pairs n to n + kCount - 1 of a row. All is read before anything is written: `to` may be `from`.
template <int kCount, class T>
CF_DEVICE void turn_pairs(const T* from, T* to, const float* cosine, const float* sine, int n,
                          const KernelAppend& append) {
  // Neighbours: pairs lie one after the other, in the first run and then in the second.
  const int low = shared::cf_rotary_x(n, append.interleaved);
  const int high = append.interleaved ? low + kCount : shared::cf_rotary_y(n, append.rotary, false);
  float a[kCount], b[kCount], cosines[kCount], sines[kCount];
  load_run<kCount>(from + low, a);
  load_run<kCount>(from + high, b);
  load_angles<kCount>(cosine + n, cosines);
  load_angles<kCount>(sine + n, sines);
  const auto turn = [&](float& x, float& y, int m) {
    const float turned = shared::cf_turned_x(x, y, cosines[m], sines[m]);
    y = shared::cf_turned_y(x, y, cosines[m], sines[m]);
    x = turned;
  };
  if (kCount > 1 && append.interleaved) {
#pragma unroll
    for (int m = 0; m + 1 < kCount; m += 2) {
      turn(a[m], a[m + 1], m / 2);
      turn(b[m], b[m + 1], (kCount + m) / 2);
    }
  } else {
#pragma unroll
    for (int m = 0; m < kCount; ++m) turn(a[m], b[m], m);
  }
  store_run<kCount>(to + low, a);
  store_run<kCount>(to + high, b);
}

// A row of one head to its new place.
template <class C>
struct RowMove {
  using T = typename C::T;
  const T* from;  // null: zeros
  T* to;
  int width, lane;
  const float *cosine = nullptr, *sine = nullptr;  // of the row's position; null: as it is

  CF_DEVICE void run(const KernelAppend& append) const {
    const int turned = cosine != nullptr ? append.rotary : 0;
    const auto address =
        reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) |
        reinterpret_cast<std::uintptr_t>(cosine) | reinterpret_cast<std::uintptr_t>(sine);
    const bool whole = turned / 2 % C::kColumns == 0 && width % C::kColumns == 0;
    if (whole && (address & 15u) == 0)
      in_runs<C::kColumns>(append, turned);
    else
      in_runs<1>(append, turned);
  }

 private:
  template <int kCount>
  CF_DEVICE void in_runs(const KernelAppend& append, int turned) const {
#pragma unroll 1
    for (int n = lane * kCount; n < turned / 2; n += C::kLanes * kCount)
      turn_pairs<kCount>(from, to, cosine, sine, n, append);
    using Run = std::conditional_t<kCount == 1, T, uint4>;
#pragma unroll 1
    for (int x = turned + lane * kCount; x < width; x += C::kLanes * kCount)
      *reinterpret_cast<Run*>(to + x) =
          from != nullptr ? *reinterpret_cast<const Run*>(from + x) : Run{};
  }
};

template <class T>
CF_DEVICE T* element_of(const KernelTensor& t, std::int64_t batch, std::int64_t row, int head) {
  return static_cast<T*>(t.data) + batch * t.batch + row * t.seq + head * t.head;
}

// Row `position` of a sequence's keys or values.
template <class T>
CF_DEVICE T* cache_row(const KernelArguments& a, const KernelTensor& t,
                       const Sequence<true>& sequence, int batch, int position, int head) {
  const KernelPages& pages = a.options.pages;
  if (pages.size == 0)
    return element_of<T>(t, sequence.batch_k(batch), sequence.first_k() + position, head);
  const int entry = position / pages.size;
  const int page = shared::cf_page(
      pages.table[static_cast<std::int64_t>(batch) * pages.of_sequence + entry], pages.count);
  return element_of<T>(t, page, position - entry * pages.size, head);
}

template <class C>
__global__ void __launch_bounds__(C::kThreads) append_kernel(const KernelArguments a) {
  using T = typename C::T;
  using Kind = AppendItem::Kind;
  const int thread = static_cast<int>(threadIdx.x);
  const AppendItem item(a, C::kRows, thread / C::kLanes);
  if (!item.there) return;
  const Sequence<true> sequence(a, item.batch);
  const int position = shared::cf_append_position(item.i, sequence.seq_q(), sequence.seq_k());
  const bool live = item.i < sequence.seq_q();
  const bool query = item.kind == Kind::query;
  if (query ? item.i >= sequence.written_q() : !live || position < 0) return;

  const KernelTensor& source = item.kind == Kind::key     ? a.append.new_k
                               : item.kind == Kind::value ? a.append.new_v
                                                          : a.q;
  const int batch_q = sequence.batch_q(item.batch), row = sequence.first_q() + item.i;
  RowMove<C> move;
  move.lane = thread % C::kLanes;
  move.width = item.kind == Kind::value ? a.d_v : a.d;
  move.from = live ? element_of<const T>(source, batch_q, row, item.head) : nullptr;
  move.to = query ? element_of<T>(a.append.rotated_q, batch_q, row, item.head)
                  : cache_row<T>(a, item.kind == Kind::key ? a.k : a.v, sequence, item.batch,
                                 position, item.head);
  if (live && item.kind != Kind::value && a.append.rotary > 0) {
    const std::int64_t angles =
        static_cast<std::int64_t>(shared::cf_rotary_row(position, a.append.positions)) *
        (a.append.rotary / 2);
    move.cosine = a.append.cosine + angles;
    move.sine = a.append.sine + angles;
  }
  move.run(a.append);
}

struct append {
  static constexpr const char* kName = "append";
  static constexpr KernelPass kPass = KernelPass::append;
  static constexpr bool kEverySize = true;  // one kernel for all head sizes and options
  template <class Arch, class T, int kHead, bool kGeneral>
  using Config = AppendConfig<Arch, T, kHead, kGeneral>;
  template <class C>
  static auto kernel() {
    return &append_kernel<C>;
  }
};

}  // namespace crossflash::hip
