// Checkpoint folders that exist whole or not at all: written in a staging folder, checksummed, manifest last, synced, renamed.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/file.h"
#include "hone/base/json.h"

namespace hone::train {

// Version of manifest.json and of our state files. A reader accepts every version up to its own.
inline constexpr int kCheckpointSchema = 1;
inline constexpr const char* kStateFile = "hone_state.json";  // position and counters, of the first process

// One file of a checkpoint as its manifest states it.
struct CheckpointFile {
  std::string name;  // relative to the folder
  uint64_t size = 0;
  uint32_t crc32c = 0;
};

struct Manifest {
  int schema = kCheckpointSchema;
  std::string run_id;
  int64_t step = 0;
  std::vector<CheckpointFile> files;

  Json to_json() const;
  static Result<Manifest> from_json(const Json& json);
};

// A save in progress. Files appear in a staging folder; commit() makes them `run_folder/checkpoint-STEP`. Destroyed before that,
// it removes what it wrote. Any failure to write leaves as std::system_error or UserError with the older checkpoints untouched.
class CheckpointWriter {
 public:
  CheckpointWriter(const fs::path& run_folder, int64_t step, std::string run_id);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;

  // Where a save of this step is staged, also by processes other than the one that commits.
  static fs::path staging_folder(const fs::path& run_folder, int64_t step, const std::string& run_id);
  // Runs one part of the save: `write` puts files into the staging folder.
  void part(const std::function<void(const fs::path& staging)>& write);
  fs::path commit();

 private:
  fs::path run_folder_, final_, staging_;
  Manifest manifest_;
  bool committed_ = false;
};

std::string checkpoint_name(int64_t step);                       // "checkpoint-12"
std::optional<int64_t> checkpoint_step(const fs::path& folder);  // 12, or nothing when the name is of another kind
// Reads the manifest and compares sizes and checksums of all files: an Error names the file and what is wrong with it.
Result<Manifest> verify_checkpoint(const fs::path& folder);
// The newest whole checkpoint of `run_id` in `run_folder`; each one passed over is named in a warning with the reason.
std::optional<fs::path> newest_checkpoint(const fs::path& run_folder, std::string_view run_id);

// Removes the oldest checkpoints of `run_id` beyond `limit`, never one of `keep`. A folder that cannot be removed is a warning;
// the next call tries again. Other runs' folders are not touched.
void retain_checkpoints(const fs::path& run_folder, std::string_view run_id, int64_t limit, const std::vector<fs::path>& keep);
// Removes what a killed process of `run_id` left behind: staging folders and half-removed checkpoints.
void sweep_leftovers(const fs::path& run_folder, std::string_view run_id);

}  // namespace hone::train
