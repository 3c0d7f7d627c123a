// The output folder of a run in its front end's layout, created and tested before anything expensive.
#pragma once
#include <optional>
#include <string>

#include "hone/base/json.h"
#include "hone/train/config.h"
#include "hone/train/find_run.h"

namespace hone::train {

// The rows split off the training data, stored next to the checkpoints: used by `infer --load_data_args true`.
inline constexpr const char* kValidationFile = "val_dataset.jsonl";

// Creates `folder` if needed and writes a test file. Throws UserError(usage) naming the folder, the problem and the setting.
void check_output_folder(const fs::path& folder, std::string_view setting = "output_dir");

struct RunFolder {
  fs::path root;  // holds checkpoint-N, logs, plots
  std::string run_id;
  std::string trains_on = {};  // see Manifest
  Json data_order = {};        // which samples its checkpoints count, see data_order.h
  Json objective = {};         // see objective.h
  std::string optimizer = {};  // its name

  fs::path log_file(Layout layout) const { return root / (layout == Layout::swift ? "logging.jsonl" : "trainer_log.jsonl"); }
};

// Removes the version folder of a run that failed before it logged or saved anything.
void discard_unused(const TrainerConfig& config, const fs::path& run_folder);

// How a run starts: from scratch or from a checkpoint.
struct RunStart {
  std::optional<fs::path> checkpoint;  // verified
  std::string run_id;
  std::optional<fs::path> folder;  // where it continues, when that is decided: files are added to those of the run it continues
};

// The output folder, if known before the data are read; none: a version folder that is created later.
std::optional<fs::path> settled_folder(const TrainerConfig& config);

// The checkpoint to resume: the given one, or the newest complete one of this run if requested ("true") or automatic
// (auto_resume, continue_run). Reports changed settings. Throws UserError(bad_checkpoint) if the given one is damaged or cannot
// be resumed.
RunStart begin_run(const TrainerConfig& config, const RunSubject& subject);

// ms-swift: output_dir/vN-YYYYmmdd-HHMMSS with N one above the highest; LLaMA-Factory and add_version false: output_dir itself; a
// run resumed by "true": its own.
fs::path make_run_folder(const TrainerConfig& config, const RunStart& start);

// Points the symlink `run.root / name` ("last", "best") to a checkpoint next to it; replaced atomically.
void point_link(const RunFolder& run, const std::string& name, const fs::path& checkpoint);

}  // namespace hone::train
