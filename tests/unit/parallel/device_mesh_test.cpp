#include "hone/parallel/collectives/device_mesh.h"

#include <gtest/gtest.h>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

TEST(DeviceMesh, GroupsFollowTheAxes) {
  auto mesh = DeviceMesh::make({.fsdp = 2, .sp = 2}, 8);
  EXPECT_EQ(mesh.size("dp"), 2);
  EXPECT_EQ(mesh.group(5, "sp"), (std::vector<int>{4, 5}));
  EXPECT_EQ(mesh.group(5, "fsdp"), (std::vector<int>{5, 7}));
  EXPECT_EQ(mesh.group(5, "dp"), (std::vector<int>{1, 5}));
  EXPECT_EQ(mesh.group(5, "tp"), (std::vector<int>{5}));
}

TEST(DeviceMesh, RanksOfOneSequenceSeeTheSameRows) {
  auto mesh = DeviceMesh::make({.fsdp = 2, .sp = 2}, 8);
  EXPECT_EQ(mesh.data_size(), 4);
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(mesh.data_rank(rank), rank / 2);
}

TEST(DeviceMesh, IsPrintable) {
  EXPECT_EQ(DeviceMesh::make({.device_type = "npu", .fsdp = 2}, 4).str(),
            "npu mesh of 4: dp 2 x fsdp 2\n  dp   [0 2] [1 3]\n  fsdp [0 1] [2 3]");
}

TEST(DeviceMesh, SaysWhyALayoutIsImpossible) {
  auto refusal = [](const DeviceMesh::Request& request, int world) -> std::string {
    try {
      DeviceMesh::make(request, world);
    } catch (const UserError& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "";
  };
  EXPECT_EQ(refusal({.fsdp = 4}, 6),
            "6 processes cannot be laid out as dp n x fsdp 4: that takes a multiple of 4 | start 8 processes, or choose "
            "sizes whose product is 6");
  EXPECT_EQ(refusal({.tp = 2}, 1),
            "1 process cannot be laid out as dp n x tp 2: that takes a multiple of 2 | start 2 processes with NPROC_PER_NODE=2");
  EXPECT_NE(refusal({.dp = 2, .fsdp = 2}, 8).find("that takes 4"), std::string::npos);
  EXPECT_NE(refusal({.tp = 2, .pp = 2}, 2).find("dp n x tp 2 x pp 2: that takes a multiple of 4"), std::string::npos);
  EXPECT_NE(refusal({.tp = 1 << 20, .pp = 1 << 20, .cp = 1 << 20}, 4).find("cannot be laid out"), std::string::npos)
      << "their product is beyond an integer";
  try {
    DeviceMesh::make_for_experts({.tp = 2, .ep = 2}, 2);
    FAIL() << "two ranks for experts that take four";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.hint()).find("unless `expert_tensor_parallel_size` is 1"), std::string::npos);
  }
  EXPECT_NE(refusal({.tp = 0}, 2).find("the size of tp is 0"), std::string::npos);
}

// Megatron's order: rank = tp + TP (cp + CP (dp + DP pp)), and for experts etp + ETP (ep + EP (edp + EDP pp)).
TEST(DeviceMesh, BothGridsFollowMegatronsOrder) {
  for (int world : {8, 16})
    for (int tp : {1, 2, 4})
      for (int cp : {1, 2})
        for (int pp : {1, 2})
          for (int ep : {1, 2, 4})
            for (int etp : {1, 2}) {
              if (world % (tp * cp * pp) != 0 || world % (ep * etp * pp) != 0) continue;
              const DeviceMesh::Request request{.tp = tp, .pp = pp, .cp = cp, .ep = ep, .etp = etp};
              const auto dense = DeviceMesh::make(request, world), experts = DeviceMesh::make_for_experts(request, world);
              const int dp = world / (tp * cp * pp), edp = world / (ep * etp * pp);
              ASSERT_EQ(dense.size("dp"), dp);
              ASSERT_EQ(experts.size("edp"), edp);
              for (int rank = 0; rank < world; ++rank) {
                auto at = [rank](const DeviceMesh& mesh, const char* axis) { return mesh.coordinate(rank, axis); };
                EXPECT_EQ(rank, at(dense, "tp") + tp * (at(dense, "cp") + cp * (at(dense, "dp") + dp * at(dense, "pp"))));
                EXPECT_EQ(rank,
                          at(experts, "etp") + etp * (at(experts, "ep") + ep * (at(experts, "edp") + edp * at(experts, "pp"))));
                EXPECT_EQ(dense.group(rank, "pp"), experts.group(rank, "pp"));
              }
            }
}

TEST(DeviceMesh, GroupsAlongSeveralAxes) {
  const DeviceMesh::Request request{.tp = 2, .pp = 2, .cp = 2, .ep = 4, .etp = 1};
  const auto dense = DeviceMesh::make(request, 16), experts = DeviceMesh::make_for_experts(request, 16);
  EXPECT_EQ(dense.group(0, {"dp", "cp"}), (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(dense.group(9, {"tp", "cp"}), (std::vector<int>{8, 9, 10, 11}));
  EXPECT_EQ(dense.group(5, "pp"), (std::vector<int>{5, 13}));
  EXPECT_EQ(experts.group(1, "ep"), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(experts.group(1, "edp"), (std::vector<int>{1, 5}));
}

TEST(DeviceMesh, NotesGroupsThatStraddleNodes) {
  EXPECT_FALSE(DeviceMesh::make({.fsdp = 3, .ranks_per_node = 4}, 12).notes().empty());
  EXPECT_TRUE(DeviceMesh::make({.fsdp = 8, .ranks_per_node = 4}, 16).notes().empty());
}

}  // namespace
}  // namespace hone::parallel
