// SPDX-License-Identifier: MIT
// block.h: reductions and scans over the threads of a block, for any associative operator, and the
// operator that attention needs, the combine of two states (m, l) of the online softmax. NVIDIA's
// are CUB's, AMD's rocPRIM's. A rocPRIM from before 4.0 refuses to compile for gfx950, and a ROCm
// may come without rocPRIM: there a scan through shared memory does both, with the same order of
// operands.
#pragma once

#include "common/shared/softmax.h"
#include "hip/tile/device.h"

#ifdef __CUDACC__
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#elif __has_include(<rocprim/rocprim_version.hpp>)
#include <rocprim/rocprim_version.hpp>
#if !defined(__gfx950__) || ROCPRIM_VERSION >= 400000
#define CROSSFLASH_ROCPRIM
#include <rocprim/block/block_reduce.hpp>
#include <rocprim/block/block_scan.hpp>
#endif
#endif

namespace crossflash::hip {

// Values of X, one of each of kThreads threads. All of them call, and `storage`, in shared memory,
// is free for the next call when one returns.
template <class X, int kThreads>
class Block {
#if defined(__CUDACC__)
  using Reduce = cub::BlockReduce<X, kThreads>;
  using Scan = cub::BlockScan<X, kThreads>;
  union Parts {
    typename Reduce::TempStorage reduce;
    typename Scan::TempStorage scan;
  };
#elif defined(CROSSFLASH_ROCPRIM)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"  // the storage, in some releases
  using Reduce = rocprim::block_reduce<X, kThreads>;
  using Scan = rocprim::block_scan<X, kThreads>;
  union Parts {
    typename Reduce::storage_type reduce;
    typename Scan::storage_type scan;
  };
#pragma clang diagnostic pop
#else
  struct Parts {
    X x[kThreads];
  };
#endif

 public:
  struct Storage {
    Parts parts;
    X all;
  };

  explicit CF_DEVICE Block(Storage& storage) : storage_(storage) {}

  // op(... op(x of thread 0, x of thread 1) ..., x of the last): every thread gets it.
  template <class Op>
  CF_DEVICE X reduce(X x, Op op) {
#if defined(__CUDACC__)
    const X all = Reduce(storage_.parts.reduce).Reduce(x, op);
#elif defined(CROSSFLASH_ROCPRIM)
    X all;
    Reduce().reduce(x, all, storage_.parts.reduce, op);
#else
    X all;
    exclusive_scan(x, x, op, all);
#endif
    if (threadIdx.x == 0) storage_.all = all;
    __syncthreads();
    const X result = storage_.all;
    __syncthreads();
    return result;
  }

  // The same over the threads before this one; thread 0 gets `none`, the operator's neutral
  // element. `all` is what reduce returns.
  template <class Op>
  CF_DEVICE X exclusive_scan(X x, X none, Op op, X& all) {
    X before;
#if defined(__CUDACC__)
    Scan(storage_.parts.scan).ExclusiveScan(x, before, none, op, all);
#elif defined(CROSSFLASH_ROCPRIM)
    Scan().exclusive_scan(x, before, none, all, storage_.parts.scan, op);
#else
    X(&sums)[kThreads] = storage_.parts.x;
    const int thread = static_cast<int>(threadIdx.x);
    for (int step = 1; step < kThreads; step *= 2) {
      sums[thread] = x;
      __syncthreads();
      if (thread >= step) x = op(sums[thread - step], x);
      __syncthreads();
    }
    sums[thread] = x;
    __syncthreads();
    before = thread > 0 ? sums[thread - 1] : none;
    all = sums[kThreads - 1];
#endif
    __syncthreads();
    return before;
  }

 private:
  Storage& storage_;
};

// (m, l) of the online softmax: the largest score of some keys, and their sum of exp(s - m).
struct SoftmaxState {
  float m, l;
};

// cf_rescale where m counts in `unit` of a score. The difference comes first: a state that has the
// combined maximum keeps what it has.
CF_DEVICE float rescale(float m, float combined, float unit) {
  return shared::cf_is_neg_inf(m) ? 0.0f : shared::cf_exp((m - combined) * unit);
}

struct CombineStates {
  float unit = 1.0f;  // what m counts in

  CF_DEVICE SoftmaxState operator()(SoftmaxState a, SoftmaxState b) const {
    const float m = shared::cf_combine_max(a.m, b.m);
    return {m, a.l * rescale(a.m, m, unit) + b.l * rescale(b.m, m, unit)};
  }
};

CF_DEVICE SoftmaxState empty_state() { return {shared::cf_neg_inf(), 0.0f}; }

}  // namespace crossflash::hip
