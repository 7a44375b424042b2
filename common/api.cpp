// SPDX-License-Identifier: MIT
// api.cpp: the C API. Checks pointers and arguments, turns Status into codes and the thread's last
// error, and lets no exception out. No attention here.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "common/backend.h"
#include "common/half.h"
#include "common/registry.h"
#include "common/shared/dropout.h"

using crossflash::Device;
using crossflash::DeviceInfo;
using crossflash::Pass;
using crossflash::Plan;
using crossflash::Problem;
using crossflash::RunArgs;
using crossflash::Status;
using crossflash::TensorId;

struct crossflash_device {
  std::unique_ptr<Device> device;
};

struct crossflash_plan {
  Problem problem;
  std::unique_ptr<Plan> plan;
};

namespace {

thread_local std::string last_error = "no error";

crossflash_status answer(const Status& status) {
  if (!status.ok()) last_error = status.text();
  return status.code();
}

// The exception barrier: what the standard library throws becomes a device error.
template <typename Function>
crossflash_status guarded(Function&& function) noexcept {
  try {
    return answer(function());
  } catch (const std::bad_alloc&) {
    last_error.assign("out of host memory");  // fits what the string already holds or is tiny
    return CROSSFLASH_DEVICE_ERROR;
  } catch (const std::exception& e) {
    return answer(crossflash::device_error("internal error: {}", e.what()));
  } catch (...) {
    return answer(crossflash::device_error("internal error"));
  }
}

Status require(const void* pointer, const char* name) {
  return pointer != nullptr ? Status{} : crossflash::invalid("{} is NULL", name);
}

Status check_size(const char* type, std::size_t given, std::size_t expected) {
  if (given == expected) return {};
  return crossflash::invalid("struct_size is {}; sizeof({}) is {}", given, type, expected);
}

void copy_text(char* to, std::size_t capacity, const std::string& from) {
  const std::size_t n = std::min(from.size(), capacity - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

Status copy_info(const DeviceInfo& from, crossflash_device_info* to) {
  CROSSFLASH_TRY(check_size("crossflash_device_info", to->struct_size, sizeof *to));
  copy_text(to->backend, sizeof to->backend, from.backend);
  to->index = from.index;
  to->usable = from.usable ? 1 : 0;
  copy_text(to->name, sizeof to->name, from.name);
  copy_text(to->driver, sizeof to->driver, from.driver);
  copy_text(to->reason, sizeof to->reason, from.reason);
  return {};
}

Status check_buffer(const char* name, std::size_t size, const crossflash_buffer& buffer) {
  if (buffer.handle == nullptr) return crossflash::invalid("{} is NULL; this pass needs it", name);
  if (buffer.offset % size != 0)
    return crossflash::invalid("{}.offset is {}; it must be a multiple of the element size, {}",
                               name, buffer.offset, size);
  return {};
}

Status run(crossflash_plan* plan, const crossflash_args* args, Pass pass) {
  CROSSFLASH_TRY(require(plan, "plan"));
  CROSSFLASH_TRY(require(args, "args"));
  CROSSFLASH_TRY(check_size("crossflash_args", args->struct_size, sizeof *args));
  const Problem& problem = plan->problem;
  if (!problem.runs(pass))
    return crossflash::invalid("passes of this plan's problem does not include {}",
                               pass == Pass::forward    ? "CROSSFLASH_FORWARD"
                               : pass == Pass::backward ? "CROSSFLASH_BACKWARD"
                                                        : "CROSSFLASH_APPEND");
  RunArgs run;
  run.buffers = {args->q,      args->k,      args->v,      args->o,     args->lse,
                 args->grad_o, args->grad_q, args->grad_k, args->grad_v};
  run.workspace = args->workspace;
  for (std::size_t n = 0; n < crossflash::kTensorCount; ++n)
    if (problem.uses(static_cast<TensorId>(n), pass))
      CROSSFLASH_TRY(check_buffer(crossflash::kTensorNames[n],
                                  crossflash::dtype_size(problem.tensors[n].dtype),
                                  run.buffers[n]));
  run.options = {args->bias,   args->alibi,      args->sink,      args->mask,      args->rows_q,
                 args->rows_k, args->page_table, args->random,    args->grad_bias, args->grad_sink,
                 args->new_k,  args->new_v,      args->rotated_q, args->cosine,    args->sine};
  for (std::size_t n = 0; n < crossflash::kOptionCount; ++n) {
    const auto id = static_cast<crossflash::OptionId>(n);
    if (problem.uses(id, pass))
      CROSSFLASH_TRY(
          check_buffer(crossflash::kOptionNames[n], problem.option_element(id), run.options[n]));
  }
  if (args->workspace.handle != nullptr && args->workspace.offset % 4 != 0)
    return crossflash::invalid("workspace.offset is {}; it must be a multiple of 4",
                               args->workspace.offset);
  CROSSFLASH_TRY(crossflash::check_random_state(problem, args->seed, args->offset, &run.dropout));
  if (args->stream != nullptr && !plan->plan->takes_stream())
    return crossflash::unsupported("stream is {}; this device's backend has none of the caller's",
                                   args->stream);
  run.stream = args->stream;
  return plan->plan->run(pass, run);
}

}  // namespace

extern "C" {

const char* crossflash_last_error(void) { return last_error.c_str(); }

const char* crossflash_status_name(crossflash_status status) {
  switch (status) {
    case CROSSFLASH_OK:
      return "ok";
    case CROSSFLASH_INVALID:
      return "invalid";
    case CROSSFLASH_UNSUPPORTED:
      return "unsupported";
    case CROSSFLASH_DEVICE_ERROR:
      return "device error";
  }
  return "unknown status";
}

crossflash_status crossflash_list_devices(crossflash_device_info* infos, size_t capacity,
                                          size_t* count) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(count, "count"));
    const auto all = crossflash::list_devices();
    *count = all.size();
    if (infos == nullptr) return {};
    for (std::size_t n = 0; n < std::min(capacity, all.size()); ++n)
      CROSSFLASH_TRY(copy_info(all[n], &infos[n]));
    return {};
  });
}

crossflash_status crossflash_device_open(const crossflash_device_options* options,
                                         crossflash_device** device) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    *device = nullptr;
    std::string selector;
    crossflash::DeviceOptions wanted;
    if (options != nullptr) {
      CROSSFLASH_TRY(
          check_size("crossflash_device_options", options->struct_size, sizeof *options));
      if (options->backend != nullptr) selector = options->backend;
      if (options->variant != nullptr) wanted.variant = options->variant;
      if (options->limits != nullptr) wanted.limits = options->limits;
    }
    auto opened = std::make_unique<crossflash_device>();
    CROSSFLASH_TRY(crossflash::open_device(selector, wanted, &opened->device));
    *device = opened.release();
    return {};
  });
}

void crossflash_device_close(crossflash_device* device) { delete device; }

crossflash_status crossflash_device_get_info(const crossflash_device* device,
                                             crossflash_device_info* info) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    CROSSFLASH_TRY(require(info, "info"));
    return copy_info(device->device->info(), info);
  });
}

const char* crossflash_device_variant(const crossflash_device* device, size_t n) {
  if (device == nullptr) return nullptr;
  const auto variants = device->device->variants();
  return n < variants.size() ? variants[n] : nullptr;
}

crossflash_status crossflash_device_wait(crossflash_device* device) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    return device->device->wait();
  });
}

crossflash_status crossflash_device_cache_save(crossflash_device* device, void* data,
                                               size_t* size) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    CROSSFLASH_TRY(require(size, "size"));
    std::vector<std::byte> blob;
    CROSSFLASH_TRY(device->device->save_cache(&blob));
    if (data != nullptr) {
      if (*size < blob.size())
        return crossflash::invalid("size is {}; the cache has {} bytes", *size, blob.size());
      std::memcpy(data, blob.data(), blob.size());
    }
    *size = blob.size();
    return {};
  });
}

crossflash_status crossflash_device_cache_load(crossflash_device* device, const void* data,
                                               size_t size) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    if (size > 0) CROSSFLASH_TRY(require(data, "data"));
    return device->device->load_cache({static_cast<const std::byte*>(data), size});
  });
}

crossflash_status crossflash_buffer_create(crossflash_device* device, uint64_t bytes,
                                           crossflash_buffer* buffer) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    CROSSFLASH_TRY(require(buffer, "buffer"));
    *buffer = {nullptr, 0};
    if (bytes == 0) return crossflash::invalid("bytes is 0; a buffer must have at least 1");
    return device->device->allocate(bytes, buffer);
  });
}

void crossflash_buffer_destroy(crossflash_device* device, crossflash_buffer buffer) {
  if (device != nullptr && buffer.handle != nullptr) device->device->release(buffer);
}

crossflash_status crossflash_upload(crossflash_device* device, crossflash_buffer destination,
                                    const void* source, uint64_t bytes) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    if (bytes == 0) return {};
    CROSSFLASH_TRY(require(destination.handle, "destination"));
    CROSSFLASH_TRY(require(source, "source"));
    return device->device->upload(destination, source, bytes);
  });
}

crossflash_status crossflash_download(crossflash_device* device, void* destination,
                                      crossflash_buffer source, uint64_t bytes) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    if (bytes == 0) return {};
    CROSSFLASH_TRY(require(destination, "destination"));
    CROSSFLASH_TRY(require(source.handle, "source"));
    return device->device->download(destination, source, bytes);
  });
}

void crossflash_problem_init(crossflash_problem* problem) {
  if (problem == nullptr) return;
  *problem = {};
  problem->struct_size = sizeof *problem;
  problem->passes = CROSSFLASH_FORWARD;
  problem->scale = __builtin_nanf("");
  problem->window_left = -1;
  problem->window_right = -1;
  problem->row_bits = 32;
}

crossflash_status crossflash_supports(const crossflash_device* device,
                                      const crossflash_problem* problem) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    CROSSFLASH_TRY(require(problem, "problem"));
    Problem checked;
    CROSSFLASH_TRY(crossflash::check_problem(*problem, &checked));
    return device->device->supports(checked);
  });
}

crossflash_status crossflash_plan_create(crossflash_device* device,
                                         const crossflash_problem* problem,
                                         crossflash_plan** plan) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(device, "device"));
    CROSSFLASH_TRY(require(problem, "problem"));
    CROSSFLASH_TRY(require(plan, "plan"));
    *plan = nullptr;
    auto made = std::make_unique<crossflash_plan>();
    CROSSFLASH_TRY(crossflash::check_problem(*problem, &made->problem));
    CROSSFLASH_TRY(device->device->supports(made->problem));
    CROSSFLASH_TRY(device->device->plan(made->problem, &made->plan));
    *plan = made.release();
    return {};
  });
}

void crossflash_plan_destroy(crossflash_plan* plan) { delete plan; }

uint64_t crossflash_plan_workspace(const crossflash_plan* plan, uint32_t pass) {
  if (plan == nullptr) return 0;
  std::uint64_t bytes = 0;
  constexpr std::uint32_t kBits[] = {CROSSFLASH_FORWARD, CROSSFLASH_BACKWARD, CROSSFLASH_APPEND};
  for (const Pass each : crossflash::kAllPasses)
    if ((pass & kBits[static_cast<std::size_t>(each)]) != 0 && plan->problem.runs(each))
      bytes = std::max(bytes, plan->plan->workspace_bytes(each));
  return bytes;
}

const char* crossflash_plan_describe(const crossflash_plan* plan) {
  return plan != nullptr ? plan->plan->describe().c_str() : "";
}

crossflash_status crossflash_forward(crossflash_plan* plan, const crossflash_args* args) {
  return guarded([&] { return run(plan, args, Pass::forward); });
}

crossflash_status crossflash_backward(crossflash_plan* plan, const crossflash_args* args) {
  return guarded([&] { return run(plan, args, Pass::backward); });
}

crossflash_status crossflash_append(crossflash_plan* plan, const crossflash_args* args) {
  return guarded([&] { return run(plan, args, Pass::append); });
}

crossflash_status crossflash_dropout_mask(const crossflash_problem* problem, uint64_t seed,
                                          uint64_t offset, uint8_t* mask) {
  return guarded([&]() -> Status {
    CROSSFLASH_TRY(require(problem, "problem"));
    CROSSFLASH_TRY(require(mask, "mask"));
    Problem checked;
    CROSSFLASH_TRY(crossflash::check_problem(*problem, &checked));
    crossflash::shared::cf_dropout state{};
    CROSSFLASH_TRY(crossflash::check_random_state(checked, seed, offset, &state));
    using crossflash::shared::uint;
    for (std::int64_t bh = 0; bh < checked.batch * checked.heads_q; ++bh)
      for (std::int64_t i = 0; i < checked.seq_q; ++i)
        for (std::int64_t j = 0; j < checked.seq_k; ++j)
          *mask++ = crossflash::shared::cf_keep(state, static_cast<uint>(bh), static_cast<uint>(i),
                                                static_cast<uint>(j))
                        ? 1
                        : 0;
    return {};
  });
}

}  // extern "C"
