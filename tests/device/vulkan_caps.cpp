// SPDX-License-Identifier: MIT
// Limits can be lowered, by name, and never raised.
#include "vulkan/caps.h"

#include <gtest/gtest.h>

namespace crossflash::vulkan {
namespace {

Caps strong() {
  Caps caps;
  caps.shared_bytes = 49152;
  caps.invocations = 1024;
  caps.storage_buffers = 16;
  caps.groups = 1u << 31;
  caps.range = 0xffffffffu;
  caps.alignment = 16;
  caps.push_bytes = 256;
  caps.flops_per_dispatch = 64e9;
  return caps;
}

TEST(VulkanCaps, EmptyChangesNothing) {
  Caps caps = strong();
  ASSERT_TRUE(lower_caps("", &caps).ok());
  EXPECT_EQ(caps.range, 0xffffffffu);
  EXPECT_EQ(caps.alignment, 16u);
}

TEST(VulkanCaps, FloorIsWhatVulkanGuarantees) {
  Caps caps = strong();
  ASSERT_TRUE(lower_caps("floor", &caps).ok());
  EXPECT_EQ(caps.shared_bytes, 16384u);
  EXPECT_EQ(caps.invocations, 128u);
  EXPECT_EQ(caps.storage_buffers, 4u);
  EXPECT_EQ(caps.groups, 65535u);
  EXPECT_EQ(caps.range, 134217728u);
  EXPECT_EQ(caps.alignment, 256u);
  EXPECT_EQ(caps.push_bytes, 128u);
  EXPECT_EQ(caps.flops_per_dispatch, 64e9);
}

TEST(VulkanCaps, ListLowersByName) {
  Caps caps = strong();
  ASSERT_TRUE(
      lower_caps("shared=32768,invocations=256,buffers=8,groups=7,range=1048576,flops=1e9", &caps)
          .ok());
  EXPECT_EQ(caps.shared_bytes, 32768u);
  EXPECT_EQ(caps.invocations, 256u);
  EXPECT_EQ(caps.storage_buffers, 8u);
  EXPECT_EQ(caps.groups, 7u);
  EXPECT_EQ(caps.range, 1048576u);
  EXPECT_EQ(caps.flops_per_dispatch, 1e9);
  EXPECT_EQ(caps.alignment, 16u);
}

TEST(VulkanCaps, FloorAndListCombine) {
  Caps caps = strong();
  ASSERT_TRUE(lower_caps("floor,range=1048576", &caps).ok());
  EXPECT_EQ(caps.range, 1048576u);
  EXPECT_EQ(caps.shared_bytes, 16384u);
}

TEST(VulkanCaps, SoftwareMayBeTakenForAGpu) {
  Caps caps = strong();
  caps.software = true;
  ASSERT_TRUE(lower_caps("floor", &caps).ok());
  EXPECT_TRUE(caps.software);
  ASSERT_TRUE(lower_caps("gpu", &caps).ok());
  EXPECT_FALSE(caps.software);
  EXPECT_EQ(caps.loop_iterations, strong().loop_iterations);
}

TEST(VulkanCaps, NothingIsRaised) {
  Caps caps = strong();
  caps.shared_bytes = 1024;
  caps.alignment = 4096;
  ASSERT_TRUE(lower_caps("floor,shared=65536,range=99999999999,flops=1e30", &caps).ok());
  EXPECT_EQ(caps.shared_bytes, 1024u);
  EXPECT_EQ(caps.alignment, 4096u);
  EXPECT_EQ(caps.range, 134217728u);
  EXPECT_EQ(caps.flops_per_dispatch, 64e9);
}

TEST(VulkanCaps, NonsenseIsNamedAndChangesNothing) {
  const std::pair<const char*, const char*> cases[] = {{"depth=3", "depth"},
                                                       {"ceiling", "ceiling"},
                                                       {"gpu=1", "gpu"},
                                                       {"shared", "shared="},
                                                       {"shared=", "shared="},
                                                       {"shared=0", "shared=0"},
                                                       {"shared=-1", "shared=-1"},
                                                       {"shared=1k", "shared=1k"},
                                                       {"range=1e6", "range=1e6"},
                                                       {"groups=4294967296", "groups="},
                                                       {"flops=nan", "flops=nan"},
                                                       {"flops=-1", "flops=-1"},
                                                       {"shared =1", "shared "},
                                                       {",", "\"\""},
                                                       {"floor,", "\"\""},
                                                       {"floor shared=1", "floor shared"},
                                                       {"shared=1,depth=3", "depth"}};
  for (const auto& [limits, named] : cases) {
    SCOPED_TRACE(limits);
    Caps caps = strong();
    const Status status = lower_caps(limits, &caps);
    EXPECT_EQ(status.code(), CROSSFLASH_INVALID);
    EXPECT_NE(status.text().find(named), std::string::npos) << status.text();
    EXPECT_EQ(caps.shared_bytes, 49152u);
  }
}

}  // namespace
}  // namespace crossflash::vulkan
