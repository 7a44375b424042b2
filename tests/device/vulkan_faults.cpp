// SPDX-License-Identifier: MIT
// Every call of a session fails once: the answer names the call, everything made is destroyed, no
// object is misused on the way, and nothing aborts.
#include <gtest/gtest.h>

#include "tests/device/vulkan_session.h"

namespace crossflash::mock {
namespace {

struct Setting {
  const char* name;
  const char* variant;
  bool unified, lazy;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

class VulkanFaults : public testing::TestWithParam<Setting> {
 protected:
  // A session on a new driver with one fault.
  struct Outcome {
    Status status;
    std::vector<Call> calls;
    std::vector<std::string> misuse;
    int living;
    std::string describe;
    std::size_t dispatches, until_closing;
  };
  static Outcome run(std::optional<Fault> fault) {
    Driver driver;
    driver.devices = {roomy_device()};
    driver.devices[0].unified = GetParam().unified;
    if (GetParam().unified) driver.devices[0].type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    driver.lazy = GetParam().lazy;
    driver.fault = fault;
    Session session;
    session.variant = GetParam().variant;
    const Status status = session.run();
    return {status,           driver.calls,      driver.misuse, driver.living(),
            session.describe, driver.dispatches, session.calls};
  }

  // A fault in one of a session's calls. Closing goes on whatever fails; and a look whether a
  // recording is idle is followed by a wait, which is what counts.
  static void expect_answer(const Outcome& good, const Fault& fault) {
    const std::string& name = good.calls[fault.call].name;
    SCOPED_TRACE(
        fmt::format("call {}, {}, result {}", fault.call, name, static_cast<int>(fault.result)));
    const bool lost = fault.result == VK_ERROR_DEVICE_LOST;
    const Outcome outcome = run(fault);
    EXPECT_EQ(outcome.living, 0);
    EXPECT_EQ(outcome.misuse, std::vector<std::string>{});
    if (fault.call >= good.until_closing || (name == "vkGetFenceStatus" && !lost)) {
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
      return;
    }
    EXPECT_FALSE(outcome.status.ok());
    const std::string named = lost ? "VK_ERROR_DEVICE_LOST" : name;
    EXPECT_NE(outcome.status.text().find(named), std::string::npos) << outcome.status.text();
    EXPECT_EQ(outcome.status.text().find('\n'), std::string::npos) << outcome.status.text();
  }
};

TEST_P(VulkanFaults, NoneIsClean) {
  const Outcome outcome = run(std::nullopt);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.text();
  EXPECT_EQ(outcome.living, 0);
  EXPECT_EQ(outcome.misuse, std::vector<std::string>{});
  EXPECT_NE(outcome.describe.find(GetParam().variant), std::string::npos) << outcome.describe;
  EXPECT_GE(outcome.dispatches, 3u * 4u);
}

TEST_P(VulkanFaults, EveryCallFails) {
  const Outcome good = run(std::nullopt);
  ASSERT_GT(good.until_closing, 100u);
  for (std::size_t n = 0; n < good.calls.size(); ++n)
    expect_answer(good, {n, VK_ERROR_OUT_OF_HOST_MEMORY});
}

TEST_P(VulkanFaults, EveryCallMakesNothing) {
  const Outcome good = run(std::nullopt);
  for (std::size_t n = 0; n < good.calls.size(); ++n)
    if (good.calls[n].makes) expect_answer(good, {n, VK_SUCCESS});
}

TEST_P(VulkanFaults, TheDeviceIsLostAnywhere) {
  const Outcome good = run(std::nullopt);
  const std::set<std::string> losing = {"vkQueueSubmit", "vkWaitForFences", "vkGetFenceStatus",
                                        "vkDeviceWaitIdle"};
  for (std::size_t n = 0; n < good.calls.size(); ++n)
    if (losing.contains(good.calls[n].name)) expect_answer(good, {n, VK_ERROR_DEVICE_LOST});
}

INSTANTIATE_TEST_SUITE_P(Sessions, VulkanFaults,
                         testing::Values(Setting{"direct", "direct", false, false},
                                         Setting{"direct_lazy", "direct", false, true},
                                         Setting{"direct_unified", "direct", true, true},
                                         Setting{"staged", "staged", false, false},
                                         Setting{"staged_lazy", "staged", false, true}),
                         [](const testing::TestParamInfo<Setting>& row) {
                           return std::string(row.param.name);
                         });

}  // namespace
}  // namespace crossflash::mock
