// SPDX-License-Identifier: MIT
// Which devices are offered, in which order, and what is said where there is none.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/device/vulkan_session.h"
#include "vulkan/backend.h"
#include "vulkan/instance.h"

namespace crossflash::mock {
namespace {

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

std::vector<DeviceInfo> list() { return vulkan::make_backend(Driver::loader)->devices(); }

// The only entry, which is not usable; opening must say the same.
std::string refusal() {
  const std::vector<DeviceInfo> all = list();
  EXPECT_EQ(all.size(), 1u);
  EXPECT_FALSE(all.at(0).usable);
  std::unique_ptr<Device> device;
  const Status status = vulkan::make_backend(Driver::loader)->open({}, &device);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(contains(status.text(), all.at(0).reason.c_str())) << status.text();
  EXPECT_EQ(device, nullptr);
  return all.at(0).reason;
}

class VulkanDevices : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(driver.living(), 0);
    EXPECT_EQ(driver.misuse, std::vector<std::string>{});
  }
  Driver driver;
};

TEST(VulkanLoader, AbsentIsSaid) {
  const auto backend = vulkan::make_backend(
      [](PFN_vkGetInstanceProcAddr*) { return unsupported("no Vulkan loader was found"); });
  const std::vector<DeviceInfo> all = backend->devices();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].usable);
  EXPECT_TRUE(contains(all[0].reason, "no Vulkan loader")) << all[0].reason;
  std::unique_ptr<Device> device;
  const Status status = backend->open({}, &device);
  EXPECT_EQ(status.code(), CROSSFLASH_UNSUPPORTED);
  EXPECT_TRUE(contains(status.text(), "no Vulkan loader")) << status.text();
}

TEST_F(VulkanDevices, NoneIsSaid) {
  driver.devices.clear();
  EXPECT_TRUE(contains(refusal(), "no device"));
}

TEST_F(VulkanDevices, OldLoaderIsSaid) {
  driver.version = VK_API_VERSION_1_0;
  EXPECT_TRUE(contains(refusal(), "supports Vulkan 1.0"));
  driver.missing = {"vkEnumerateInstanceVersion"};  // as in loaders of 1.0
  EXPECT_TRUE(contains(refusal(), "supports Vulkan 1.0"));
}

TEST_F(VulkanDevices, OldDeviceIsSaid) {
  driver.devices[0].api_version = VK_API_VERSION_1_0;
  EXPECT_TRUE(contains(refusal(), "supports Vulkan 1.0"));
}

TEST_F(VulkanDevices, DeviceWithoutComputeIsSaid) {
  driver.devices[0].queues = {VK_QUEUE_GRAPHICS_BIT, VK_QUEUE_TRANSFER_BIT};
  EXPECT_TRUE(contains(refusal(), "no queue"));
}

TEST_F(VulkanDevices, IndexPastTheLastIsSaid) {
  DeviceOptions options;
  options.index = 1;
  std::unique_ptr<Device> device;
  const Status status = vulkan::make_backend(Driver::loader)->open(options, &device);
  EXPECT_EQ(status.code(), CROSSFLASH_UNSUPPORTED);
  EXPECT_TRUE(contains(status.text(), "1")) << status.text();
}

TEST_F(VulkanDevices, EveryMissingFunctionIsSaid) {
  // Without these nothing can be destroyed.
  const std::set<std::string> destroyers = {"vkDestroyInstance", "vkDestroyDevice"};
  std::vector<std::string> names;
#define CROSSFLASH_NAME(name) names.push_back(#name);
  CROSSFLASH_VULKAN_GLOBAL_FUNCTIONS(CROSSFLASH_NAME)
  CROSSFLASH_VULKAN_INSTANCE_FUNCTIONS(CROSSFLASH_NAME)
  CROSSFLASH_VULKAN_DEVICE_FUNCTIONS(CROSSFLASH_NAME)
#undef CROSSFLASH_NAME
  for (const std::string& name : names) {
    if (destroyers.contains(name)) continue;
    SCOPED_TRACE(name);
    driver.missing = {name};
    const Status status = Session{}.run();
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(contains(status.text(), name.c_str())) << status.text();
  }
}

TEST_F(VulkanDevices, BestComesFirst) {
  const auto add = [this](const char* name, VkPhysicalDeviceType type) {
    driver.devices.emplace_back();
    driver.devices.back().name = name;
    driver.devices.back().type = type;
  };
  driver.devices.clear();
  add("software", VK_PHYSICAL_DEVICE_TYPE_CPU);
  add("integrated", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU);
  add("discrete", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  add("another", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  std::vector<std::string> names;
  for (const DeviceInfo& info : list()) names.push_back(info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"discrete", "another", "integrated", "software"}));
}

TEST_F(VulkanDevices, QueueThatOnlyComputesIsPreferred) {
  driver.devices[0].queues = {VK_QUEUE_TRANSFER_BIT, VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT,
                              VK_QUEUE_COMPUTE_BIT};
  std::shared_ptr<const vulkan::Instance> instance;
  ASSERT_TRUE(vulkan::Instance::create(Driver::loader, &instance).ok());
  EXPECT_EQ(instance->devices().at(0).queue_family, 2u);
}

TEST_F(VulkanDevices, DriverIsNamed) {
  EXPECT_EQ(list().at(0).driver, "version 0x7");
  driver.devices[0].extensions = {"VK_KHR_driver_properties"};
  EXPECT_EQ(list().at(0).driver, "mock 1.0");
}

TEST_F(VulkanDevices, ValidationIsTurnedOnOrRefused) {
  setenv("CROSSFLASH_VALIDATION", "1", 1);
  EXPECT_TRUE(contains(refusal(), "VK_LAYER_KHRONOS_validation is not installed"));
  driver.layers = {"VK_LAYER_KHRONOS_validation"};
  EXPECT_TRUE(contains(refusal(), "VK_EXT_validation_features"));
  driver.layer_extensions = {"VK_EXT_validation_features", "VK_EXT_debug_utils"};
  EXPECT_TRUE(list().at(0).usable);
  EXPECT_EQ(driver.enabled_layers, driver.layers);
  unsetenv("CROSSFLASH_VALIDATION");
  EXPECT_TRUE(list().at(0).usable);
  EXPECT_TRUE(driver.enabled_layers.empty());
}

}  // namespace
}  // namespace crossflash::mock
