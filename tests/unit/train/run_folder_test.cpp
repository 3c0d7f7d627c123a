#include "hone/train/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "hone/train/checkpoints/checkpoint.h"
#include "hone/train/run_lock.h"
#include "train/scratch_folder.h"

namespace hone::train {
namespace {

void save_checkpoint_of(const fs::path& folder, int64_t step, const std::string& run_id, const std::string& trains_on = "t",
                        const Json& args = Json::object()) {
  CheckpointWriter writer(folder, {.run_id = run_id, .trains_on = trains_on, .step = step});
  writer.part([&](const fs::path& staging) {
    write_file_atomically(staging / "adapter_model.safetensors", "x");
    write_file_atomically(staging / "args.json", args.dump());
  });
  writer.commit();
}

std::optional<fs::path> resumed(const TrainerConfig& config, const RunSubject& subject = {"t"}) {
  return begin_run(config, subject).checkpoint;
}

TEST(OutputFolder, AFileInItsPlaceIsRefusedByName) {
  ScratchFolder scratch;
  std::ofstream(scratch.path() / "taken") << "x";
  for (const auto& path : {scratch.path() / "taken", scratch.path() / "taken" / "below"}) {
    try {
      check_output_folder(path);
      FAIL() << "accepted " << path;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
    }
  }
}

TEST(OutputFolder, AReadOnlyFileSystemIsRefused) { EXPECT_THROW(check_output_folder("/proc/hone-output"), UserError); }

TEST(RunFolder, VersionsCountUp) {
  ScratchFolder scratch;
  TrainerConfig config{.output_dir = scratch.path()};
  EXPECT_TRUE(make_run_folder(config, begin_run(config, {"t"})).filename().string().starts_with("v0-"));
  EXPECT_TRUE(make_run_folder(config, begin_run(config, {"t"})).filename().string().starts_with("v1-"));
  config.add_version = false;
  EXPECT_EQ(make_run_folder(config, begin_run(config, {"t"})), scratch.path());
}

TEST(Resume, AskedForAndDamagedFails) {
  ScratchFolder scratch;
  save_checkpoint_of(scratch.path(), 4, "r");
  fs::resize_file(scratch.path() / "checkpoint-4/adapter_model.safetensors", 0);
  TrainerConfig config{.output_dir = scratch.path(), .resume_from_checkpoint = scratch.path() / "checkpoint-4"};
  try {
    resumed(config);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_checkpoint);
  }
}

TEST(Resume, AutomaticTakesTheNewestWholeOfThisRun) {
  ScratchFolder scratch;
  save_checkpoint_of(scratch.path(), 4, "r");
  save_checkpoint_of(scratch.path(), 8, "r");
  save_checkpoint_of(scratch.path(), 9, "other", "another model");
  TrainerConfig config{.layout = Layout::factory, .output_dir = scratch.path(), .auto_resume = true};
  EXPECT_EQ(resumed(config), scratch.path() / "checkpoint-8");
  fs::resize_file(scratch.path() / "checkpoint-8/adapter_model.safetensors", 0);
  EXPECT_EQ(resumed(config), scratch.path() / "checkpoint-4");
  config.overwrite_output_dir = true;
  EXPECT_EQ(resumed(config), std::nullopt);
}

TEST(Resume, TwoRunsOfOneThingAreToldApartByTheirSettings) {
  ScratchFolder scratch;
  const Json slow{{"learning_rate", 1e-4}}, fast{{"learning_rate", 1e-2}};
  save_checkpoint_of(scratch.path(), 8, "a", "t", slow);
  save_checkpoint_of(scratch.path(), 4, "b", "t", fast);
  TrainerConfig config{.layout = Layout::factory, .output_dir = scratch.path(), .resume_from_checkpoint = "true"};
  auto first = begin_run(config, {"t", slow}), second = begin_run(config, {"t", fast});
  EXPECT_EQ(first.checkpoint, scratch.path() / "checkpoint-8");
  EXPECT_EQ(first.run_id, "a");
  EXPECT_EQ(second.checkpoint, scratch.path() / "checkpoint-4");
  EXPECT_EQ(second.run_id, "b");
  // Neither's settings: the newest of those that differ alike, and the difference can be reported.
  const Json other{{"learning_rate", 1.0}};
  EXPECT_EQ(resumed(config, {"t", other}), scratch.path() / "checkpoint-4");
  EXPECT_EQ(changed_settings(scratch.path() / "checkpoint-4", other),
            std::vector<std::string>{"`learning_rate` was 0.01 and is now 1"});
}

TEST(Resume, ATextOfAnOlderVersionIsTheListOfItsWords) {
  ScratchFolder scratch;
  save_checkpoint_of(scratch.path(), 4, "a", "t",
                     {{"fsdp", "full_shard auto_wrap"}, {"adapters", nullptr}, {"columns", "a"}, {"seed", 1}});
  const auto changes = [&](const Json& now) { return changed_settings(scratch.path() / "checkpoint-4", now); };
  EXPECT_TRUE(
      changes({{"fsdp", {"full_shard", "auto_wrap"}}, {"adapters", Json::array()}, {"columns", "a"}, {"seed", 1}}).empty());
  EXPECT_EQ(changes({{"fsdp", {"full_shard", "offload"}}}),
            std::vector<std::string>{R"(`fsdp` was full_shard auto_wrap and is now ["full_shard","offload"])"});
  EXPECT_EQ(changes({{"adapters", {"one"}}}), std::vector<std::string>{R"(`adapters` was unset and is now ["one"])"});
}

TEST(Resume, TrueStartsWhereNothingIsAndFindsVersionFolders) {
  ScratchFolder scratch;
  TrainerConfig config{.output_dir = scratch.path() / "out", .resume_from_checkpoint = "true"};
  fs::create_directories(config.output_dir);
  auto anew = begin_run(config, {"t"});
  EXPECT_FALSE(anew.checkpoint || anew.folder);
  EXPECT_EQ(anew.run_id.size(), 16u);
  auto version = config.output_dir / "v0-20260101-000000";
  save_checkpoint_of(version, 3, "a");
  auto again = begin_run(config, {"t"});
  EXPECT_EQ(again.checkpoint, version / "checkpoint-3");
  EXPECT_EQ(make_run_folder(config, again), version);
  config.resume_from_checkpoint = config.output_dir;  // a folder that holds runs names the newest checkpoint in it
  EXPECT_EQ(resumed(config), version / "checkpoint-3");
}

TEST(Resume, EarlierIdsAreContinuedUnderFreshOnes) {
  ScratchFolder scratch;
  save_checkpoint_of(scratch.path(), 3, "0011223344556677", "0011223344556677");
  auto manifest = parse_json(read_file(scratch.path() / "checkpoint-3/manifest.json")).value();
  manifest.erase("trains_on"), manifest.erase("saved_at"), manifest.erase("processes");
  write_file_atomically(scratch.path() / "checkpoint-3/manifest.json", manifest.dump());
  TrainerConfig config{.layout = Layout::factory, .output_dir = scratch.path(), .resume_from_checkpoint = "true"};
  EXPECT_EQ(begin_run(config, {"0011223344556677"}).checkpoint, scratch.path() / "checkpoint-3");
  EXPECT_NE(begin_run(config, {"0011223344556677"}).run_id, "0011223344556677");
  EXPECT_FALSE(begin_run(config, {"other"}).checkpoint);
  manifest.erase("run_id");
  write_file_atomically(scratch.path() / "checkpoint-3/manifest.json", manifest.dump());
  EXPECT_EQ(begin_run(config, {"0011223344556677"}).checkpoint, scratch.path() / "checkpoint-3");
}

TEST(Resume, FromTheMiddleOfARunAnotherBegins) {
  ScratchFolder scratch;
  for (int step : {2, 4}) save_checkpoint_of(scratch.path(), step, "a");
  TrainerConfig config{
      .layout = Layout::factory, .output_dir = scratch.path(), .resume_from_checkpoint = scratch.path() / "checkpoint-4"};
  EXPECT_EQ(begin_run(config, {"t"}).run_id, "a");
  config.resume_from_checkpoint = scratch.path() / "checkpoint-2";
  EXPECT_NE(begin_run(config, {"t"}).run_id, "a");
}

TEST(Lock, AFolderIsOneRunsAtATime) {
  ScratchFolder scratch;
  {
    RunLock held(scratch.path());
    try {
      RunLock second(scratch.path());
      FAIL();
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("process {} on ", ::getpid())), std::string::npos) << error.what();
    }
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  RunLock again(scratch.path());
}

TEST(Resume, AFinishedModelIsNotTrainedOver) {
  ScratchFolder scratch;
  std::ofstream(scratch.path() / "adapter_model.safetensors") << "x";
  TrainerConfig config{.layout = Layout::factory, .output_dir = scratch.path(), .auto_resume = true};
  EXPECT_THROW(resumed(config), UserError);
}

TEST(Links, PointAtACheckpointAndMove) {
  ScratchFolder scratch;
  RunFolder run{scratch.path(), "r"};
  fs::create_directories(scratch.path() / "checkpoint-1");
  fs::create_directories(scratch.path() / "checkpoint-2");
  point_link(run, "last", scratch.path() / "checkpoint-1");
  point_link(run, "last", scratch.path() / "checkpoint-2");
  EXPECT_EQ(fs::read_symlink(scratch.path() / "last"), "checkpoint-2");
}

}  // namespace
}  // namespace hone::train
