// Where a run writes: the folder of its front end's layout, made and tried before anything expensive happens.
#pragma once
#include <optional>
#include <string>

#include "hone/base/json.h"
#include "hone/train/config.h"
#include "hone/train/find_run.h"

namespace hone::train {

// The rows that were split off the training data, beside the checkpoints: `infer --load_data_args true` answers them.
inline constexpr const char* kValidationFile = "val_dataset.jsonl";

// Creates `folder` if needed and writes a probe into it. Throws UserError(usage) naming the folder and why it cannot be used.
void check_output_folder(const fs::path& folder);

struct RunFolder {
  fs::path root;  // holds checkpoint-N, logs, plots
  std::string run_id;
  std::string trains_on = {};  // see Manifest
  Json data_order = {};        // which samples its checkpoints count, see data_order.h
  Json objective = {};         // see objective.h

  fs::path log_file(Layout layout) const { return root / (layout == Layout::swift ? "logging.jsonl" : "trainer_log.jsonl"); }
};

// Removes the version folder of a run that failed before it logged or saved anything.
void discard_unused(const TrainerConfig& config, const fs::path& run_folder);

// How a run begins: again, or from a checkpoint.
struct Beginning {
  std::optional<fs::path> checkpoint;  // verified
  std::string run_id;
  std::optional<fs::path> folder;  // where it continues, when that is decided: files are added to those of the run it continues
};

// The folder a run writes into as far as it is known before its data is read; none: a version folder that is made when all is
// well.
std::optional<fs::path> settled_folder(const TrainerConfig& config);

// The checkpoint to continue from: the one named, or the newest complete one of this run if requested ("true"), or by
// itself (auto_resume, continue_run). Settings that have changed since are named. Throws UserError(bad_checkpoint) when the one
// named is damaged or cannot be continued.
Beginning begin_run(const TrainerConfig& config, const RunSubject& subject);

// ms-swift: output_dir/vN-YYYYmmdd-HHMMSS with N one above the highest there; LLaMA-Factory and add_version false: output_dir
// itself; a run that is continued by "true": its own.
fs::path make_run_folder(const TrainerConfig& config, const Beginning& beginning);

// Points the link `run.root / name` ("last", "best") at a checkpoint beside it; swapped in one rename.
void point_link(const RunFolder& run, const std::string& name, const fs::path& checkpoint);

}  // namespace hone::train
