#include "hone/parallel/collectives/device_mesh.h"

#include <gtest/gtest.h>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

TEST(DeviceMesh, GroupsFollowTheAxes) {
  auto mesh = DeviceMesh::plan({.fsdp = 2, .sp = 2}, 8);
  EXPECT_EQ(mesh.size("dp"), 2);
  EXPECT_EQ(mesh.group(5, "sp"), (std::vector<int>{4, 5}));
  EXPECT_EQ(mesh.group(5, "fsdp"), (std::vector<int>{5, 7}));
  EXPECT_EQ(mesh.group(5, "dp"), (std::vector<int>{1, 5}));
  EXPECT_EQ(mesh.group(5, "tp"), (std::vector<int>{5}));
}

TEST(DeviceMesh, RanksOfOneSequenceSeeTheSameRows) {
  auto mesh = DeviceMesh::plan({.fsdp = 2, .sp = 2}, 8);
  EXPECT_EQ(mesh.data_size(), 4);
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(mesh.data_rank(rank), rank / 2);
}

TEST(DeviceMesh, IsPrintable) {
  EXPECT_EQ(DeviceMesh::plan({.device_type = "npu", .fsdp = 2}, 4).str(),
            "npu mesh of 4: dp 2 x fsdp 2\n  dp   [0 2] [1 3]\n  fsdp [0 1] [2 3]");
}

TEST(DeviceMesh, SaysWhyALayoutIsImpossible) {
  auto refusal = [](const DeviceMesh::Request& request, int world) -> std::string {
    try {
      DeviceMesh::plan(request, world);
    } catch (const UserError& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "";
  };
  EXPECT_EQ(refusal({.fsdp = 4}, 6),
            "6 processes cannot be laid out as dp n x fsdp 4 x sp 1: that takes a multiple of 4 | start 8 processes, or choose "
            "sizes whose product is 6");
  EXPECT_NE(refusal({.dp = 2, .fsdp = 2}, 8).find("that takes 4"), std::string::npos);
  EXPECT_NE(refusal({.tp = 2}, 2).find("tp (tensor) parallelism of 2"), std::string::npos);
}

TEST(DeviceMesh, RemarksOnGroupsThatStraddleNodes) {
  EXPECT_FALSE(DeviceMesh::plan({.fsdp = 3, .ranks_per_node = 4}, 12).notes().empty());
  EXPECT_TRUE(DeviceMesh::plan({.fsdp = 8, .ranks_per_node = 4}, 16).notes().empty());
}

}  // namespace
}  // namespace hone::parallel
