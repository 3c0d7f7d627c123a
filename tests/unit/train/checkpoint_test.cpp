#include "hone/train/checkpoints/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "hone/base/fault_injection.h"
#include "hone/io/newest_checkpoint.h"
#include "train/scratch_folder.h"

namespace hone::train {
namespace {

constexpr const char* kRun = "run-a";

fs::path save(const fs::path& folder, int64_t step, const std::string& run_id = kRun, const std::string& content = "weights",
              bool overwrites = false) {
  CheckpointWriter writer(folder, {.run_id = run_id, .step = step}, overwrites);
  writer.part(
      [&](const fs::path& staging) { write_file_atomically(staging / "model.safetensors", content + std::to_string(step)); });
  writer.part([&](const fs::path& staging) { write_file_atomically(staging / "state.json", "{}"); });
  return writer.commit();
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Runs this very program as another process with a fault set; returns waitpid's status.
int run_worker(const fs::path& folder, const std::string& fault) {
  pid_t child = ::fork();
  if (child == 0) {
    ::setenv("HONE_TEST_FAULT", fault.c_str(), 1);
    ::setenv("HONE_TEST_FOLDER", folder.c_str(), 1);
    ::execl("/proc/self/exe", "train_test", "--gtest_filter=CheckpointWorker.DISABLED_SavesSteps3And4",
            "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(CheckpointWorker, DISABLED_SavesSteps3And4) {
  fs::path folder = std::getenv("HONE_TEST_FOLDER");
  set_fault(std::getenv("HONE_TEST_FAULT"));
  save(folder, 3);
  retain_checkpoints(folder, kRun, 2, {folder / "checkpoint-3"});
  save(folder, 4);
}

TEST(Checkpoint, IsWholeAfterCommit) {
  ScratchFolder scratch;
  auto folder = save(scratch.path(), 7);
  auto manifest = verify_checkpoint(folder);
  ASSERT_TRUE(manifest.ok()) << manifest.error();
  EXPECT_EQ(manifest->step, 7);
  EXPECT_EQ(manifest->files.size(), 2u);
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"checkpoint-7"});
}

TEST(Checkpoint, AbandonedSaveLeavesNothing) {
  ScratchFolder scratch;
  { CheckpointWriter writer(scratch.path(), {.run_id = kRun, .step = 1}); }
  EXPECT_TRUE(names_in(scratch.path()).empty());
}

class KilledAt : public testing::TestWithParam<const char*> {};

TEST_P(KilledAt, RestartFindsTheNewestWholeOne) {
  ScratchFolder scratch;
  const auto oldest = save(scratch.path(), 1), merged = merged_checkpoint(oldest);
  fs::create_directories(merged);
  save(scratch.path(), 2);
  int status = run_worker(scratch.path(), std::string(GetParam()) + ":kill");
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the fault point was not reached";
  auto newest = newest_checkpoint(scratch.path(), kRun);
  ASSERT_TRUE(newest.has_value());
  EXPECT_TRUE(verify_checkpoint(*newest).ok());
  bool after = std::string(GetParam()).find("after_rename") != std::string::npos ||
               std::string(GetParam()).find("retention") != std::string::npos;
  EXPECT_EQ(io::checkpoint_step(*newest), after ? 3 : 2);
  sweep_leftovers(scratch.path());
  EXPECT_EQ(fs::exists(merged), fs::exists(oldest));
  fs::remove_all(merged);
  for (const auto& name : names_in(scratch.path())) EXPECT_TRUE(io::checkpoint_step(name).has_value()) << name;
  EXPECT_EQ(io::checkpoint_step(save(scratch.path(), 3)), 3);
}

INSTANTIATE_TEST_SUITE_P(EveryPoint, KilledAt,
                         testing::Values("checkpoint.before_first_byte", "checkpoint.write", "checkpoint.before_manifest",
                                         "checkpoint.before_rename", "checkpoint.after_rename", "checkpoint.during_retention"));

TEST(Checkpoint, FullDiskAtAnyWriteLeavesOldOnesAndNoPartial) {
  for (int n = 1; n <= 4; ++n) {
    ScratchFolder scratch;
    save(scratch.path(), 2);
    int status = run_worker(scratch.path(), fmt::format("checkpoint.write:enospc:{}", n));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << "write " << n << " did not fail";
    EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"checkpoint-2"}) << "write " << n;
  }
}

TEST(Checkpoint, DamageIsNamedAndPassedOver) {
  struct Case {
    const char* what;
    std::function<void(const fs::path&)> damage;
    const char* reason;
  };
  const Case cases[] = {
      {"truncated", [](const fs::path& folder) { fs::resize_file(folder / "model.safetensors", 3); }, "has 3 bytes"},
      {"flipped byte", [](const fs::path& folder) { std::ofstream(folder / "model.safetensors") << "weightz5"; },
       "does not match its checksum"},
      {"missing file", [](const fs::path& folder) { fs::remove(folder / "state.json"); }, "state.json is missing"},
      {"damaged manifest", [](const fs::path& folder) { std::ofstream(folder / "manifest.json") << "{\"schema\": 1"; },
       "manifest.json is damaged"},
      {"future schema", [](const fs::path& folder) { std::ofstream(folder / "manifest.json") << "{\"schema\": 99}"; },
       "schema 99"},
      {"no manifest", [](const fs::path& folder) { fs::remove(folder / "manifest.json"); }, "no manifest.json"},
  };
  for (const auto& test : cases) {
    ScratchFolder scratch;
    save(scratch.path(), 4);
    auto folder = save(scratch.path(), 5);
    test.damage(folder);
    auto manifest = verify_checkpoint(folder);
    ASSERT_FALSE(manifest.ok()) << test.what;
    EXPECT_NE(manifest.error().find(test.reason), std::string::npos) << manifest.error();
    EXPECT_EQ(newest_checkpoint(scratch.path(), kRun), scratch.path() / "checkpoint-4") << test.what;
  }
}

TEST(Checkpoint, ManifestCannotReachOutside) {
  ScratchFolder scratch;
  auto folder = save(scratch.path(), 5);
  std::ofstream(folder / "manifest.json")
      << R"({"schema":1,"run_id":"run-a","step":5,"files":[{"name":"../../etc/passwd","size":1,"crc32c":"00000000"},)"
      << R"({"name":"model.safetensors","size":8,"crc32c":"00000000"}]})";
  auto manifest = verify_checkpoint(folder);
  ASSERT_FALSE(manifest.ok());
  EXPECT_NE(manifest.error().find("outside"), std::string::npos);
}

TEST(Checkpoint, AManifestListsWhatItsKindNeeds) {
  ScratchFolder scratch;
  auto folder = save(scratch.path(), 5);
  auto refused = [&](const std::string& fields) {
    std::ofstream(folder / "manifest.json") << R"({"schema":1,"run_id":"run-a","step":5,)" << fields << "}";
    auto manifest = verify_checkpoint(folder);
    return manifest ? std::string() : manifest.error();
  };
  EXPECT_NE(refused(R"("files":[])").find("the weights"), std::string::npos);
  const std::string weights = R"("files":[{"name":"model.safetensors","size":8,"crc32c":"00000000"}])";
  EXPECT_NE(refused(R"("processes":1,)" + weights).find("trainer_state.json"), std::string::npos);
  EXPECT_NE(refused(R"("processes":1000000000,)" + weights).find("processes"), std::string::npos);
  const std::string states =
      R"("files":[{"name":"model.safetensors","size":8,"crc32c":"0"},{"name":"trainer_state.json","size":2,"crc32c":"0"},)"
      R"({"name":"hone_state.json","size":2,"crc32c":"0"}])";
  EXPECT_NE(refused(R"("processes":1,)" + states).find("hone_state.safetensors"), std::string::npos);
  EXPECT_EQ(refused(R"("processes":1,"weights_alone":true,)" + states).find("does not list"), std::string::npos);
  EXPECT_NE(refused(R"("processes":2,"weights_alone":true,)" + states).find("hone_state-rank-1.json"), std::string::npos);
}

TEST(Checkpoint, NothingIsCommittedWithoutWeights) {
  ScratchFolder scratch;
  {
    CheckpointWriter writer(scratch.path(), {.run_id = kRun, .step = 1});
    writer.part([](const fs::path& staging) { write_file_atomically(staging / "state.json", "{}"); });
    EXPECT_THROW(writer.commit(), std::runtime_error);
  }
  EXPECT_TRUE(names_in(scratch.path()).empty());
}

TEST(Checkpoint, RetentionRemovesWhatItCouldNotBefore) {
  ScratchFolder scratch;
  for (int step : {1, 2}) save(scratch.path(), step);
  fs::create_directories(scratch.path() / fmt::format("checkpoint-0.deleting-{}", kRun) / "inside");
  fs::create_directories(scratch.path() / "checkpoint-0.deleting-run-b");
  retain_checkpoints(scratch.path(), kRun, 2, {});
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"checkpoint-0.deleting-run-b", "checkpoint-1", "checkpoint-2"}));
}

TEST(Checkpoint, AnotherRunsAreNeitherTakenNorRemoved) {
  ScratchFolder scratch;
  save(scratch.path(), 90, "run-b");
  save(scratch.path(), 3, "run-b");
  for (int step : {1, 2, 3, 4}) save(scratch.path(), step);
  EXPECT_EQ(newest_checkpoint(scratch.path(), kRun), scratch.path() / "checkpoint-4");
  retain_checkpoints(scratch.path(), kRun, 1, {});
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"checkpoint-3.other-1", "checkpoint-4", "checkpoint-90"}));
}

TEST(Checkpoint, AnotherRunsIsReplacedByOneThatOverwrites) {
  ScratchFolder scratch;
  save(scratch.path(), 3, "run-b");
  save(scratch.path(), 3, kRun, "weights", true);
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"checkpoint-3"}));
  EXPECT_EQ(newest_checkpoint(scratch.path(), kRun), scratch.path() / "checkpoint-3");
}

TEST(Checkpoint, RetentionKeepsTheBest) {
  ScratchFolder scratch;
  for (int step : {1, 2, 3, 4, 5}) save(scratch.path(), step);
  retain_checkpoints(scratch.path(), kRun, 2, {scratch.path() / "checkpoint-5", scratch.path() / "checkpoint-2"});
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"checkpoint-2", "checkpoint-5"}));
}

TEST(Checkpoint, SavingAStepAgainReplacesOurOwn) {
  ScratchFolder scratch;
  save(scratch.path(), 1, kRun, "old");
  auto folder = save(scratch.path(), 1, kRun, "new");
  EXPECT_EQ(read_file(folder / "model.safetensors"), "new1");
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"checkpoint-1"});
}

}  // namespace
}  // namespace hone::train
