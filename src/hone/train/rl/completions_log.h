// completions.jsonl: one line per rollout, with prompts, completions, rewards and advantages as parallel lists.
#pragma once
#include "hone/base/file.h"
#include "hone/base/json.h"

namespace hone::train::rl {

class CompletionsLog {
 public:
  explicit CompletionsLog(const fs::path& folder) : path_(folder / "completions.jsonl") {}

  // The run resumes from a checkpoint: lines of `step` and later steps will be written again.
  void truncate_to(int64_t step) const;
  void append(const Json& table) const;

 private:
  fs::path path_;
};

}  // namespace hone::train::rl
