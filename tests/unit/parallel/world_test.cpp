#include "hone/parallel/launch/world.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "hone/base/error.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {
namespace {

class WorldEnvironment : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NPROC_PER_NODE", "NNODES",
          "NODE_RANK", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
      ::unsetenv(name);
  }
};

TEST_F(WorldEnvironment, AloneByDefault) {
  EXPECT_FALSE(world_from_environment().distributed());
  EXPECT_EQ(launch_from_environment().processes, 0);
}

TEST_F(WorldEnvironment, ReadsTorchrunsNames) {
  ::setenv("RANK", "3", 1), ::setenv("WORLD_SIZE", "8", 1), ::setenv("LOCAL_RANK", "1", 1), ::setenv("LOCAL_WORLD_SIZE", "2", 1);
  ::setenv("MASTER_ADDR", "10.0.0.1", 1), ::setenv("MASTER_PORT", "1234", 1);
  auto world = world_from_environment();
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.size, 8);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.master_address, "10.0.0.1");
  EXPECT_EQ(world.master_port, 1234);
}

TEST_F(WorldEnvironment, ReadsSlurmsNames) {
  ::setenv("SLURM_PROCID", "5", 1), ::setenv("SLURM_NTASKS", "6", 1), ::setenv("SLURM_STEP_NODELIST", "node[03-07,9]", 1),
      ::setenv("SLURM_JOB_ID", "41", 1);
  auto world = world_from_environment();
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.size, 6);
  EXPECT_EQ(world.master_address, "node03");
  EXPECT_EQ(world.master_port, 20041);
}

TEST_F(WorldEnvironment, ProcessesOfAMachineShareItsCores) {
  int all = cores_per_rank(1);
  EXPECT_GE(all, 1);
  EXPECT_EQ(cores_per_rank(2), std::max(1, all / 2));
  EXPECT_EQ(cores_per_rank(100000), 1);
  ::setenv("SLURM_PROCID", "1", 1), ::setenv("SLURM_CPUS_PER_TASK", "7", 1);
  EXPECT_EQ(cores_per_rank(2), 7) << "Slurm gives each task its own";
  ::unsetenv("SLURM_CPUS_PER_TASK");
}

TEST_F(WorldEnvironment, RefusesWhatDoesNotFit) {
  ::setenv("RANK", "8", 1), ::setenv("WORLD_SIZE", "8", 1);
  EXPECT_THROW(world_from_environment(), UserError);
  ::setenv("WORLD_SIZE", "many", 1);
  EXPECT_THROW(world_from_environment(), UserError);
  ::setenv("NNODES", "2", 1), ::setenv("NODE_RANK", "0", 1);
  EXPECT_THROW(launch_from_environment(), UserError) << "several nodes need MASTER_ADDR";
}

// Runs `body` as every rank of a real group of processes; returns how many ended well.
int run_ranks(int size, int port, int (*body)(ProcessGroup&)) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    pid_t pid = ::fork();
    if (pid == 0) {
      int code = 1;
      try {
        auto group =
            ProcessGroup::join({rank, size, rank, size, "127.0.0.1", port}, {.rendezvous_timeout = std::chrono::seconds(20)});
        code = body(*group);
        group->barrier();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      ::_exit(code);
    }
    children.push_back(pid);
  }
  int good = 0;
  for (pid_t pid : children) {
    int status;
    ::waitpid(pid, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

TEST(ProcessGroup, CollectivesAgreeAcrossProcesses) {
  auto body = [](ProcessGroup& group) {
    auto rank = static_cast<float>(group.rank());
    Tensor sum = at::full({5}, rank + 1);
    group.all_reduce(sum)->wait();
    Tensor root = at::full({2}, rank);
    group.broadcast(root, 2);
    Tensor all = at::empty({3});
    group.all_gather(all, at::full({1}, rank))->wait();
    Tensor part = at::empty({1});
    group.reduce_scatter(part, at::arange(3).to(at::kFloat))->wait();
    bool right = sum.equal(at::full({5}, 6.0f)) && root.equal(at::full({2}, 2.0f)) && all.equal(at::tensor({0.f, 1.f, 2.f})) &&
                 part.item<float>() == 3 * rank;
    group.require_equal("answers", {{"answer", 42}});
    return right ? 0 : 1;
  };
  EXPECT_EQ(run_ranks(3, 29611, body), 3);
}

TEST(ProcessGroup, DifferentTextsAreNamed) {
  auto body = [](ProcessGroup& group) {
    try {
      group.require_equal("options", {{"seed", 1}, {"rate", group.rank() == 1 ? 2 : 3}});
    } catch (const UserError& error) {
      return std::string(error.what()).find("rank 1 and rank 0 differ in their options: rate is 2") != std::string::npos ? 0 : 1;
    }
    return 1;
  };
  EXPECT_EQ(run_ranks(2, 29612, body), 2);
}

TEST(ProcessGroup, MissingRankIsNamed) {
  try {
    ProcessGroup::join({0, 2, 0, 2, "127.0.0.1", 29613}, {.rendezvous_timeout = std::chrono::seconds(1)});
    FAIL() << "expected a UserError";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::lost_peer);
    EXPECT_NE(std::string(error.what()).find("rank 1 of 2 did not connect"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace hone::parallel
