// Finds the run in a folder that a command continues: among those with the same objective, the one with the fewest differing
// settings, the newest of equals.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/file.h"
#include "hone/base/json.h"

namespace hone::train {

// The requested settings, to compare with existing runs.
struct RunSubject {
  std::string trains_on;           // see Manifest
  Json settings = Json::object();  // every resolved option
};

struct FoundRun {
  fs::path folder;
  std::string id, trains_on;
  double saved_at = 0;
  fs::path newest;  // its highest step; perhaps damaged
};

// The runs with checkpoints in `folder` or in its version folders (vN-…), newest first. Unreadable checkpoints are named in a
// warning.
std::vector<FoundRun> runs_in(const fs::path& folder);

// The newest complete checkpoint of the run that `subject` continues. Runs with other models, data or tuners are skipped by name.
std::optional<fs::path> find_checkpoint(const fs::path& folder, const RunSubject& subject);
// The newest complete checkpoint of any run in a folder given by the user.
std::optional<fs::path> newest_of_any(const fs::path& folder);

// "`learning_rate` was 0.0001 and is now 0.001" for each setting that differs from a checkpoint's args.json; paths and switches
// without an effect on steps are omitted.
std::vector<std::string> changed_settings(const fs::path& checkpoint, const Json& settings);

// The id under which a run resumes from `checkpoint`: its own, or a new one if the checkpoint has none or is not the last of its
// run, whose later checkpoints are then kept.
std::string id_to_continue(const fs::path& checkpoint);
std::string fresh_run_id();

}  // namespace hone::train
