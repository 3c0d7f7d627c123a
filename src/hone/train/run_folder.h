// Where a run writes: the folder of its front end's layout, made and tried before anything expensive happens.
#pragma once
#include <optional>
#include <string>

#include "hone/base/json.h"
#include "hone/train/config.h"

namespace hone::train {

// The rows that were split off the training data, beside the checkpoints: `infer --load_data_args true` answers them.
inline constexpr const char* kValidationFile = "val_dataset.jsonl";

// Creates `folder` if needed and writes a probe into it. Throws UserError(usage) naming the folder and why it cannot be used.
void check_output_folder(const fs::path& folder);

struct RunFolder {
  fs::path root;  // holds checkpoint-N, logs, plots
  std::string run_id;
  Json data_order = {};  // which samples its checkpoints count, see data_order.h
  Json objective = {};   // see objective.h

  fs::path log_file(Layout layout) const { return root / (layout == Layout::swift ? "logging.jsonl" : "trainer_log.jsonl"); }
};

// Removes the version folder of a run that failed before it logged or saved anything.
void discard_unused(const TrainerConfig& config, const fs::path& run_folder);

// ms-swift: output_dir/vN-YYYYmmdd-HHMMSS with N one above the highest there; LLaMA-Factory and add_version false: output_dir
// itself.
RunFolder make_run_folder(const TrainerConfig& config, std::string run_id);

// The checkpoint to continue from, verified: the one asked for, else (auto_resume) the newest whole one of this run in
// output_dir. Throws UserError(bad_checkpoint) when the one asked for is damaged or cannot be continued.
std::optional<fs::path> checkpoint_to_resume(const TrainerConfig& config, const std::string& run_id);

// Points the link `run.root / name` ("last", "best") at a checkpoint beside it; swapped in one rename.
void point_link(const RunFolder& run, const std::string& name, const fs::path& checkpoint);

}  // namespace hone::train
