// The part of a run before its model is loaded.
#pragma once
#include "hone/data/row_report.h"
#include "hone/train/distillation/distillation_loader.h"
#include "hone/train/loop/trainer.h"
#include "hone/train/rl/loader/rollout_loader.h"
#include "hone/train/run.h"
#include "hone/train/run_folder.h"
#include "hone/train/run_lock.h"

namespace hone::train {

// Everything that is set up before the model is loaded: errors in options or data are reported here, within a second.
struct RunSetup {
  RunFolder run;
  std::unique_ptr<RunLock> lock;  // of its folder, on the first process
  bool folder_per_node = false;   // and what is saved goes into all of them
  std::optional<fs::path> resume;
  std::shared_ptr<data::RowReport> report;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const data::Encoder> encoder;
  data::OpenedData data;
  std::unique_ptr<data::Loader> loader;
  rl::RolloutLoader* rollouts = nullptr;                               // the same, where the model writes the rows itself
  DistillationLoader* distillation = nullptr;                          // the same, where it generates completions for a teacher
  std::vector<std::shared_ptr<const rl::Prompts>> validation_prompts;  // then, of each of validation_sets()
  StepCounts step_counts;
  std::optional<optim::LrScheduler> schedule;
};

RunSetup set_up_run(const TrainingJob& job, const DistributedContext& processes);

// The evaluation sets and the names of their metrics.
std::vector<data::NamedSource> validation_sets(const data::OpenedData& data);

std::string tuner_name(const tuner::TunerConfig& tuner);  // as run identities and argument files spell it

}  // namespace hone::train
