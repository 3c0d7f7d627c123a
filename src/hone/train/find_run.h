// Which run of a folder a command continues: of those that train the same thing the one whose settings differ least, the newest
// of equals.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/file.h"
#include "hone/base/json.h"

namespace hone::train {

// What a command requests, to be compared with what is found.
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

// The runs that have checkpoints in `folder` or in a version folder (vN-…) of it, newest first. Checkpoints that cannot be read
// are named in a warning.
std::vector<FoundRun> runs_in(const fs::path& folder);

// The newest whole checkpoint of the run that `subject` continues. Runs of other models, data or tuners are passed over, by name.
std::optional<fs::path> find_checkpoint(const fs::path& folder, const RunSubject& subject);
// The newest complete checkpoint in a folder that the user named, of any run.
std::optional<fs::path> newest_of_any(const fs::path& folder);

// "`learning_rate` was 0.0001 and is now 0.001" for each setting that a checkpoint's args.json has otherwise; places and switches
// that change no step are left out.
std::vector<std::string> changed_settings(const fs::path& checkpoint, const Json& settings);

// The id under which a run resumes from `checkpoint`: its own, or a fresh one where the checkpoint has none, or is not the last
// of its run, whose later checkpoints then stay what they are.
std::string id_to_continue(const fs::path& checkpoint);
std::string fresh_run_id();

}  // namespace hone::train
