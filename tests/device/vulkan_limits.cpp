// SPDX-License-Identifier: MIT
// Sessions on devices weaker than any at hand: nothing that is bound, pushed or dispatched leaves
// the device's limits, whether it has them or pretends to.
#include <gtest/gtest.h>

#include "tests/device/vulkan_session.h"
#include "vulkan/backend.h"

namespace crossflash::mock {
namespace {

void expect_clean(Driver& driver, const Session& session) {
  const Status status = session.run();
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(driver.misuse, std::vector<std::string>{});
  EXPECT_EQ(driver.living(), 0);
}

TEST(VulkanLimits, FloorIsEnough) {
  Driver driver;
  Session session;
  expect_clean(driver, session);
  EXPECT_NE(session.describe.find("staged"), std::string::npos) << session.describe;
}

TEST(VulkanLimits, FewGroups) {
  Driver driver;
  driver.devices = {roomy_device()};
  for (const char* variant : {"direct", "staged"})
    for (const std::uint32_t groups : {1u, 3u}) {
      driver.devices[0].limits.maxComputeWorkGroupCount[0] = groups;
      Session session;
      session.variant = variant;
      expect_clean(driver, session);
    }
}

TEST(VulkanLimits, SmallRange) {
  Driver driver;
  Session session;
  session.batch = 1;
  session.seq_q = session.seq_k = 4096;
  for (const crossflash_dtype dtype : {CROSSFLASH_F32, CROSSFLASH_F16}) {
    session.dtype = dtype;
    driver.devices[0].limits.maxStorageBufferRange = 1u << 20;
    expect_clean(driver, session);
  }
}

TEST(VulkanLimits, PretendedLimitsHoldToo) {
  Driver driver;
  driver.devices = {roomy_device()};
  Session session;
  session.limits = "floor,range=1048576";
  expect_clean(driver, session);
  EXPECT_NE(session.describe.find("staged"), std::string::npos) << session.describe;
  session.limits = "floor,depth=3";
  EXPECT_EQ(session.run().code(), CROSSFLASH_INVALID);
}

TEST(VulkanLimits, ThreadsShareAPlan) {
  for (const bool lazy : {false, true}) {
    Driver driver;
    driver.devices = {roomy_device()};
    driver.lazy = lazy;
    Session session;
    session.threads = 4;
    for (const char* variant : {"direct", "staged"}) {
      session.variant = variant;
      expect_clean(driver, session);
    }
  }
}

TEST(VulkanLimits, MemoryThatIsNotThereIsSaid) {
  Driver driver;
  driver.devices[0].memory = 1u << 20;
  const auto backend = vulkan::make_backend(Driver::loader);
  std::unique_ptr<Device> device;
  ASSERT_TRUE(backend->open({}, &device).ok());
  crossflash_buffer buffer{};
  for (const std::uint64_t bytes : {std::uint64_t{1} << 21, ~std::uint64_t{0}}) {
    const Status status = device->allocate(bytes, &buffer);
    EXPECT_EQ(status.code(), CROSSFLASH_DEVICE_ERROR);
    EXPECT_NE(status.text().find(std::to_string(bytes)), std::string::npos) << status.text();
  }
}

TEST(VulkanLimits, CacheOfAnotherDeviceIsIgnoredAndATruncatedOneRefused) {
  Driver driver;
  const auto backend = vulkan::make_backend(Driver::loader);
  std::unique_ptr<Device> device;
  ASSERT_TRUE(backend->open({}, &device).ok());
  std::vector<std::byte> blob;
  ASSERT_TRUE(device->save_cache(&blob).ok());
  EXPECT_TRUE(device->load_cache(blob).ok());
  const auto merges = [&driver] {
    std::size_t count = 0;
    for (const Call& call : driver.calls) count += call.name == "vkMergePipelineCaches" ? 1 : 0;
    return count;
  };
  EXPECT_EQ(merges(), 1u);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, blob.size() - 1})
    EXPECT_EQ(device->load_cache(std::span(blob).first(bytes)).code(), CROSSFLASH_INVALID);
  std::vector<std::byte> altered = blob;
  altered.back() ^= std::byte{1};
  EXPECT_EQ(device->load_cache(altered).code(), CROSSFLASH_INVALID);
  EXPECT_TRUE(device->load_cache(std::vector<std::byte>(100)).ok());  // no blob of ours
  EXPECT_EQ(merges(), 1u);

  device.reset();
  driver.devices[0].type = VK_PHYSICAL_DEVICE_TYPE_CPU;  // whose blobs carry another device's id
  ASSERT_TRUE(backend->open({}, &device).ok());
  ASSERT_TRUE(device->save_cache(&blob).ok());
  EXPECT_TRUE(device->load_cache(blob).ok());
  EXPECT_EQ(merges(), 1u);
}

}  // namespace
}  // namespace crossflash::mock
