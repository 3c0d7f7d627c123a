// Atomic checkpoint folders: written in a staging folder, checksummed, manifest last, synced, renamed.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/file.h"
#include "hone/base/json.h"

namespace hone::train {

// Version of manifest.json and of our state files. A reader accepts all versions up to its own.
inline constexpr int kCheckpointSchema = 1;
inline constexpr const char* kStateFile = "hone_state.json";  // position and counters, of the first process

// One file of a checkpoint, as listed in its manifest.
struct CheckpointFile {
  std::string name;  // relative to the folder
  uint64_t size = 0;
  uint32_t crc32c = 0;
};

struct Manifest {
  int schema = kCheckpointSchema;
  std::string run_id = {};     // drawn at random when a run begins, and kept when it is continued; "" in files that name none
  std::string trains_on = {};  // the same for all runs of a model, data and tuner; earlier versions had it as their run_id
  int64_t step = 0;
  double saved_at = 0;  // seconds since 1970; 0: not stated
  int processes = 0;    // whose states a checkpoint to be continued holds; 0: not stated
  bool weights_alone = false;
  std::vector<CheckpointFile> files = {};

  Json to_json() const;
  static Result<Manifest> from_json(const Json& json);
  // The file that is missing for a checkpoint of its kind; "" if none is.
  std::string missing_file() const;
};

// A save in progress. Files are written to a staging folder; commit() renames it to `run_folder/checkpoint-STEP`. Its destructor
// removes uncommitted files. A failed write throws std::system_error or UserError and leaves older checkpoints untouched.
class CheckpointWriter {
 public:
  // `head` is the manifest without its files. Another run's checkpoint of the same step is renamed unless this one
  // `overwrites`.
  CheckpointWriter(const fs::path& run_folder, Manifest head, bool overwrites = false);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;

  // The staging folder of a step, also for processes other than the one that commits.
  static fs::path staging_folder(const fs::path& run_folder, int64_t step, const std::string& run_id);
  // Runs one part of the save: `write` adds files to the staging folder.
  void part(const std::function<void(const fs::path& staging)>& write);
  fs::path commit();

 private:
  fs::path run_folder_, final_, staging_;
  Manifest manifest_;
  bool overwrites_, committed_ = false;
};

std::string checkpoint_name(int64_t step);               // "checkpoint-12"
fs::path merged_checkpoint(const fs::path& checkpoint);  // "checkpoint-12-merged": the model with the adapter merged into it
// Reads the manifest and compares sizes and checksums of all files: an Error names the file and what is wrong with it.
Result<Manifest> verify_checkpoint(const fs::path& folder);
// The manifest alone, without verifying files. An Error describes the problem.
Result<Manifest> read_manifest(const fs::path& folder);
std::vector<std::pair<int64_t, fs::path>> checkpoints_newest_first(const fs::path& run_folder);  // by their names
// The newest complete checkpoint of `run_id` in `run_folder`;
// skipped ones are named in warnings with the reason.
std::optional<fs::path> newest_checkpoint(const fs::path& run_folder, std::string_view run_id);

// Removes the oldest checkpoints of `run_id` beyond `limit`, except those in `keep`. A folder that cannot be removed is a
// warning; the next call retries. Other runs' checkpoints are not touched.
void retain_checkpoints(const fs::path& run_folder, std::string_view run_id, int64_t limit, const std::vector<fs::path>& keep);
// Removes leftovers of killed processes: staging folders and half-removed checkpoints. No other run may use the folder.
void sweep_leftovers(const fs::path& run_folder);

}  // namespace hone::train
