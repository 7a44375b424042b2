// SPDX-License-Identifier: MIT
// module.cpp: a backend whose module is missing, is no module, or belongs to another version: never
// a failure to start, always one unusable device with the reason.
#include "common/module.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace crossflash {
namespace {

std::string reason_of(Backend& backend) {
  const std::vector<DeviceInfo> devices = backend.devices();
  EXPECT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].backend, backend.name());
  EXPECT_FALSE(devices[0].usable);
  std::unique_ptr<Device> device;
  const Status status = backend.open({}, &device);
  EXPECT_EQ(status.code(), CROSSFLASH_UNSUPPORTED);
  EXPECT_NE(status.text().find(devices[0].reason), std::string::npos) << status.text();
  return devices[0].reason;
}

TEST(Module, OneThatIsMissingIsNamed) {
  const auto backend = make_module_backend("missing");
  EXPECT_NE(reason_of(*backend).find("libcrossflash_missing.so was not found"), std::string::npos);
}

TEST(Module, OneThatDoesNotLoadGivesTheLoadersReason) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "crossflash_modules";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "libcrossflash_broken.so") << "not a shared object";
  ASSERT_EQ(setenv("CROSSFLASH_MODULE_PATH", ("/nowhere::" + folder.string()).c_str(), 1), 0);
  const auto backend = make_module_backend("broken");
  EXPECT_NE(reason_of(*backend).find("libcrossflash_broken.so: file too short"), std::string::npos);
  ASSERT_EQ(unsetenv("CROSSFLASH_MODULE_PATH"), 0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace crossflash
