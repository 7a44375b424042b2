// SPDX-License-Identifier: MIT
#include "tests/device/vulkan_session.h"

#include <deque>
#include <numeric>
#include <thread>

#include "common/half.h"
#include "vulkan/backend.h"

namespace crossflash::mock {
namespace {

// Buffers that go back to their device.
class Buffers {
 public:
  explicit Buffers(Device& device) : device_(device) {}
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() {
    for (const crossflash_buffer buffer : made_) device_.release(buffer);
  }

  Status add(std::uint64_t bytes, crossflash_buffer* out) {
    CROSSFLASH_TRY(device_.allocate(bytes, out));
    made_.push_back(*out);
    return {};
  }

 private:
  Device& device_;
  std::vector<crossflash_buffer> made_;
};

Status check_session_problem(const Session& session, Problem* out) {
  crossflash_problem problem;
  crossflash_problem_init(&problem);
  problem.passes = CROSSFLASH_FORWARD | CROSSFLASH_BACKWARD;
  problem.dtype = session.dtype;
  problem.batch = session.batch;
  problem.seq_q = session.seq_q;
  problem.seq_k = session.seq_k;
  problem.heads_q = 4;
  problem.heads_kv = 2;
  problem.d = 24;
  problem.d_v = 16;
  return check_problem(problem, out);
}

// What is uploaded comes back, also where it is odd and in the middle.
Status check_copies(Device& device, crossflash_buffer buffer, std::uint64_t bytes) {
  std::vector<unsigned char> sent(bytes - 3), received(sent.size());
  std::iota(sent.begin(), sent.end(), static_cast<unsigned char>(1));
  buffer.offset += 1;
  CROSSFLASH_TRY(device.upload(buffer, sent.data(), sent.size()));
  CROSSFLASH_TRY(device.download(received.data(), buffer, received.size()));
  if (sent != received) return device_error("a download differs from its upload");
  return {};
}

// What one thread does with the plan.
Status use(Device& device, Plan& plan, const Problem& problem, Buffers& buffers) {
  RunArgs args;
  for (std::size_t n = 0; n < kTensorCount; ++n) {
    const Tensor& tensor = problem.tensors[n];
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(tensor.extent()) * dtype_size(tensor.dtype);
    CROSSFLASH_TRY(buffers.add(bytes, &args.buffers[n]));
    if (n == 0) CROSSFLASH_TRY(check_copies(device, args.buffers[n], bytes));
  }
  for (int repeat = 0; repeat < 3; ++repeat) {
    CROSSFLASH_TRY(plan.run(Pass::forward, args));
    CROSSFLASH_TRY(plan.run(Pass::backward, args));
  }
  CROSSFLASH_TRY(device.wait());
  std::vector<std::byte> blob;
  CROSSFLASH_TRY(device.save_cache(&blob));
  return device.load_cache(blob);
}

}  // namespace

Status Session::run() const {
  const std::unique_ptr<Backend> backend = vulkan::make_backend(Driver::loader);
  DeviceOptions options;
  options.limits = limits;
  options.variant = variant;
  std::unique_ptr<Device> device;
  CROSSFLASH_TRY(backend->open(options, &device));
  Problem problem;
  CROSSFLASH_TRY(check_session_problem(*this, &problem));
  CROSSFLASH_TRY(device->supports(problem));
  std::deque<Buffers> buffers;
  std::unique_ptr<Plan> plan;
  CROSSFLASH_TRY(device->plan(problem, &plan));
  describe = plan->describe();

  std::vector<Status> statuses(static_cast<std::size_t>(threads));
  const auto work = [&](std::size_t n) { statuses[n] = use(*device, *plan, problem, buffers[n]); };
  for (std::size_t n = 0; n < statuses.size(); ++n) buffers.emplace_back(*device);
  std::vector<std::thread> others;
  for (std::size_t n = 1; n < statuses.size(); ++n) others.emplace_back(work, n);
  work(0);
  for (std::thread& other : others) other.join();
  for (const Status& status : statuses) CROSSFLASH_TRY(status);
  calls = Driver::current().calls.size();
  return {};
}

DeviceSpec roomy_device() {
  DeviceSpec spec;
  spec.limits.maxPerStageDescriptorStorageBuffers = 16;
  return spec;
}

}  // namespace crossflash::mock
