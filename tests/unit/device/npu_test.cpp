#include <gtest/gtest.h>

#include "hone/device/npu/errors.h"
#include "hone/device/npu/hccl.h"
#include "hone/device/npu/install.h"
#include "hone/device/npu/smi.h"

namespace hone::device::npu {
namespace {

constexpr const char* kA2 = R"(+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 90.4        32                0    / 0             |
| 0                         | 0000:C1:00.0  | 7           0    / 0          41697/ 65536         |
+===========================+===============+====================================================+
| 1     910B3               | Alarm         | 91.0        33                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3412 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
)";

TEST(NpuSmi, ReadsA2) {
  auto cards = parse_smi_info(kA2);
  ASSERT_EQ(cards.size(), 2u);
  EXPECT_EQ(cards[0].name, "npu:0");
  EXPECT_EQ(cards[0].model, "Ascend 910B3");
  EXPECT_EQ(cards[0].memory_used, 41697LL << 20);
  EXPECT_EQ(cards[0].memory_total, 65536LL << 20);
  EXPECT_EQ(cards[0].utilization_percent, 7);
  EXPECT_EQ(cards[0].watts, 90);
  EXPECT_EQ(cards[0].celsius, 32);
  EXPECT_TRUE(cards[0].error.empty());
  EXPECT_EQ(cards[1].error, "npu-smi says Alarm");
}

TEST(NpuSmi, ReadsTwoDiesAndMemoryWithoutHbm) {
  auto dies = parse_smi_info(
      "| 0     Ascend910           | OK            | 168.1       36                0    / 0             |\n"
      "| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3161 / 65536         |\n"
      "+------------------------------------------------------------------------------------------------+\n"
      "| 0     Ascend910           | OK            | -           35                0    / 0             |\n"
      "| 1     1                   | 0000:9F:00.0  | 0           0    / 0          2892 / 65536         |\n");
  ASSERT_EQ(dies.size(), 2u);
  EXPECT_EQ(dies[1].memory_used, 2892LL << 20);
  EXPECT_FALSE(dies[1].watts);
  auto duo = parse_smi_info(
      "| 2     310P3               | OK            | NA          41                0     / 0            |\n"
      "| 0     0                   | 0000:01:00.0  | 0           994  / 21534                            |\n");
  ASSERT_EQ(duo.size(), 1u);
  EXPECT_EQ(duo[0].memory_total, 21534LL << 20);
}

TEST(NpuSmi, SurvivesNoise) {
  EXPECT_TRUE(parse_smi_info("").empty());
  EXPECT_TRUE(parse_smi_info("|||\n| 0 x | OK |\n|0 910B3|OK|1 2|").empty());
  EXPECT_TRUE(parse_smi_topology("NPU0\nNPU0").names.empty());
}

TEST(NpuSmi, ReadsLinks) {
  auto matrix = parse_smi_topology(
      "           NPU0       NPU1       CPU Affinity\n"
      "NPU0       X          HCCS       144-167\n"
      "NPU1       HCCS       X          0-23\n\nLegend:\n  X = Self\n");
  ASSERT_EQ(matrix.names.size(), 2u);
  EXPECT_EQ(matrix.links[0][1], "HCCS");
  EXPECT_EQ(matrix.cpus[1], "0-23");
}

TEST(NpuNetwork, PatternsOfInterfaces) {
  EXPECT_TRUE(interface_matches("eth", "eth0"));
  EXPECT_FALSE(interface_matches("eth", "lo"));
  EXPECT_TRUE(interface_matches("=eth0", "eth0"));
  EXPECT_FALSE(interface_matches("=eth", "eth0"));
  EXPECT_TRUE(interface_matches("^eth", "lo"));
  EXPECT_FALSE(interface_matches("^eth", "eth1"));
  EXPECT_TRUE(interface_matches("^=eth0", "eth1"));
  EXPECT_TRUE(interface_matches("enp,eth", "eth0"));
}

// The texts as torch_npu and CANN print them.
TEST(NpuErrors, ClassicFailuresAreExplained) {
  for (auto [text, cause, advice] : {
           std::tuple{"EZ9999: Inner Error! ... aicore exception, error code is 507015", "aicore exception",
                      "ASCEND_LAUNCH_BLOCKING=1"},
           {"EZ9999: Inner Error!", "inner error of CANN", "ASCEND_LAUNCH_BLOCKING=1"},
           {"EI0002: The wait execution of the Notify register times out", "did not reach it", "HCCL_EXEC_TIMEOUT"},
           {"EI0006: Getting socket times out", "not every rank joined", "HCCL_CONNECT_TIMEOUT"},
           {"EJ0001: Failed to initialize the HCCP process", "ports on the card are taken", "HCCL_IF_BASE_PORT"},
           {"NPU out of memory. Tried to allocate 2.00 GiB", "memory is full", "expandable_segments"},
           {"ERR: call aclnnFoo failed, error code is 561103", "no kernel", "hone doctor"},
           {"libtorch_npu.so: undefined symbol: _ZN3c10", "different releases", "hone doctor"},
           {"ImportError: libhccl.so: cannot open shared object file", "was not found", "set_env.sh"},
           {"EE2002: ASCEND_RT_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "ascending"},
           {"error code is 507053", "memory has an error", "checkpoint"},
       }) {
    auto found = explain(text);
    ASSERT_TRUE(found) << text;
    EXPECT_NE(found->cause.find(cause), std::string::npos) << found->cause;
    EXPECT_NE(found->advice.find(advice), std::string::npos) << found->advice;
  }
  EXPECT_FALSE(explain("size mismatch"));
}

TEST(NpuVersions, Match) {
  EXPECT_TRUE(same_release("2.7.1", "2.7.1.post4"));
  EXPECT_TRUE(same_release("2.13.0+cpu", "2.13.0"));
  EXPECT_FALSE(same_release("2.8.0", "2.7.1"));
  EXPECT_FALSE(same_release("2.8.0", ""));
  EXPECT_TRUE(cann_serves("9.1.0", "2.13.0"));
  EXPECT_TRUE(cann_serves("8.3.RC1", "2.7.1"));
  EXPECT_FALSE(cann_serves("8.0.0", "2.7.1"));
  EXPECT_TRUE(cann_serves("12.0.0", "3.0.0"));
}

}  // namespace
}  // namespace hone::device::npu
