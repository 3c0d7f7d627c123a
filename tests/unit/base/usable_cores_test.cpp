#include "hone/base/usable_cores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

namespace hone {
namespace {

namespace fs = std::filesystem;

// A root folder with the files named.
fs::path machine(const std::string& name, const std::map<std::string, std::string>& files) {
  auto root = fs::path(testing::TempDir()) / ("machine-" + name);
  fs::remove_all(root);
  for (const auto& [path, text] : files) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << '\n';
  }
  return root;
}

TEST(UsableCores, ReadsCoreLists) {
  EXPECT_EQ(parse_core_list("3"), std::vector{3});
  EXPECT_EQ(parse_core_list("0-2,5"), (std::vector{0, 1, 2, 5}));
  EXPECT_TRUE(parse_core_list("").empty());
  EXPECT_TRUE(parse_core_list("NA").empty());
  EXPECT_EQ(parse_core_list("1,x"), std::vector{1});
  EXPECT_LE(parse_core_list("0-999999999").size(), 1024u);
}

TEST(UsableCores, TheSmallestQuotaAroundTheProcessCounts) {
  EXPECT_TRUE(std::isinf(cpu_quota(machine("none", {}))));
  EXPECT_TRUE(std::isinf(cpu_quota(machine("free", {{"proc/self/cgroup", "0::/a"}, {"sys/fs/cgroup/a/cpu.max", "max 100000"}}))));
  EXPECT_EQ(cpu_quota(machine("v2", {{"proc/self/cgroup", "0::/pod/app"},
                                     {"sys/fs/cgroup/pod/cpu.max", "150000 100000"},
                                     {"sys/fs/cgroup/pod/app/cpu.max", "800000 100000"}})),
            1.5);
  // Inside a container the group's path is the host's, and its own limit is at the top.
  EXPECT_EQ(cpu_quota(machine("inside", {{"proc/self/cgroup", "0::/kubepods/x"}, {"sys/fs/cgroup/cpu.max", "400000 100000"}})),
            4);
  EXPECT_EQ(cpu_quota(machine("v1", {{"proc/self/cgroup", "9:memory:/m\n3:cpu,cpuacct:/docker/y"},
                                     {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"},
                                     {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"},
                                     {"sys/fs/cgroup/cpu,cpuacct/docker/y/cpu.cfs_quota_us", "50000"},
                                     {"sys/fs/cgroup/cpu,cpuacct/docker/y/cpu.cfs_period_us", "100000"}})),
            0.5);
}

TEST(UsableCores, AtLeastOneAtMostTheMask) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(allowed_cores().size()));
}

// A Kunpeng 920 with two sockets: four nodes of 24 cores.
TEST(UsableCores, ProcessesKeepToTheirNodes) {
  std::map<std::string, std::string> files;
  for (int node = 0; node < 4; ++node)
    files["sys/devices/system/node/node" + std::to_string(node) + "/cpulist"] =
        std::to_string(24 * node) + "-" + std::to_string(24 * node + 23);
  files["sys/devices/system/node/online"] = "0-3";
  std::vector<int> all(96);
  for (int core = 0; core < 96; ++core) all[static_cast<size_t>(core)] = core;
  const auto nodes = numa_nodes(all, machine("kunpeng", files));
  ASSERT_EQ(nodes.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(share_of_cores(nodes, rank, 4), nodes[static_cast<size_t>(rank)]);
  for (int rank = 0; rank < 8; ++rank) {
    const auto own = share_of_cores(nodes, rank, 8);
    EXPECT_EQ(own.size(), 12u);
    EXPECT_EQ(own.front() / 24, own.back() / 24) << "rank " << rank << " lies in two nodes";
  }
  EXPECT_EQ(share_of_cores(nodes, 100, 200), std::vector{4}) << "more processes than cores";
  EXPECT_EQ(numa_nodes({25, 26, 95}, machine("part", files)), (std::vector<std::vector<int>>{{25, 26}, {95}}))
      << "only what the mask allows";
  EXPECT_EQ(numa_nodes({0, 1}, machine("plain", {})), (std::vector<std::vector<int>>{{0, 1}}));
}

}  // namespace
}  // namespace hone
