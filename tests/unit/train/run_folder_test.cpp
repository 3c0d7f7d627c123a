#include "hone/train/run_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hone/train/checkpoint.h"
#include "train/scratch_folder.h"

namespace hone::train {
namespace {

void save_checkpoint_of(const fs::path& folder, int64_t step, const std::string& run_id) {
  CheckpointWriter writer(folder, step, run_id);
  writer.part([](const fs::path& staging) { write_file_atomically(staging / "adapter_model.safetensors", "x"); });
  writer.commit();
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
  EXPECT_TRUE(make_run_folder(config, "r").root.filename().string().starts_with("v0-"));
  EXPECT_TRUE(make_run_folder(config, "r").root.filename().string().starts_with("v1-"));
  config.add_version = false;
  EXPECT_EQ(make_run_folder(config, "r").root, scratch.path());
}

TEST(Resume, AskedForAndDamagedFails) {
  ScratchFolder scratch;
  save_checkpoint_of(scratch.path(), 4, "r");
  fs::resize_file(scratch.path() / "checkpoint-4/adapter_model.safetensors", 0);
  TrainerConfig config{.output_dir = scratch.path(), .resume_from_checkpoint = scratch.path() / "checkpoint-4"};
  try {
    checkpoint_to_resume(config, "r");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_checkpoint);
  }
}

TEST(Resume, AutomaticTakesTheNewestWholeOfThisRun) {
  ScratchFolder scratch;
  save_checkpoint_of(scratch.path(), 4, "r");
  save_checkpoint_of(scratch.path(), 8, "r");
  save_checkpoint_of(scratch.path(), 9, "other");
  TrainerConfig config{.layout = Layout::factory, .output_dir = scratch.path(), .auto_resume = true};
  EXPECT_EQ(checkpoint_to_resume(config, "r"), scratch.path() / "checkpoint-8");
  fs::resize_file(scratch.path() / "checkpoint-8/adapter_model.safetensors", 0);
  EXPECT_EQ(checkpoint_to_resume(config, "r"), scratch.path() / "checkpoint-4");
  config.overwrite_output_dir = true;
  EXPECT_EQ(checkpoint_to_resume(config, "r"), std::nullopt);
}

TEST(Resume, AFinishedModelIsNotTrainedOver) {
  ScratchFolder scratch;
  std::ofstream(scratch.path() / "adapter_model.safetensors") << "x";
  TrainerConfig config{.layout = Layout::factory, .output_dir = scratch.path(), .auto_resume = true};
  EXPECT_THROW(checkpoint_to_resume(config, "r"), UserError);
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
