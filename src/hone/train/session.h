// One attempt at a run, built step by step: data and folder, then the models by name, then the trainer.
#pragma once
#include "hone/train/distillation/teacher.h"
#include "hone/train/loaded_model.h"
#include "hone/train/methods/make_loss.h"
#include "hone/train/methods/reference.h"
#include "hone/train/reports/run_summary.h"
#include "hone/train/run_setup.h"

namespace hone::train {

class TrainingSession {
 public:
  // Everything that is ready before a model. `job` and `processes` must outlive the session.
  TrainingSession(const TrainingJob& job, const DistributedContext& processes);

  const fs::path& folder() const { return setup_.run.root; }
  void load_models();
  RunResult train();
  // After training, or without it: do_eval and do_predict.
  void evaluate(const RunResult* finished);

 private:
  struct OwnedDeps;  // of the trainer

  bool is_main() const { return processes_.world.is_main(); }
  OtherModels other_models() const;
  void join_projections();
  void connect_generation(ParallelStrategy& strategy, const WeightFiles& files);
  void split_other_models();
  TrainerDeps trainer_deps(OwnedDeps& owned);
  void seed_dropout() const;
  void log_start() const;
  RunResult result_of(Outcome outcome, const Trainer& trainer, const Loss& loss) const;
  void keep_result(const Trainer& trainer, OwnedDeps& owned, RunResult& finished);
  void save_result(const WeightFiles& weights, const NodeReplicator& replicator);
  void report_result(const Trainer& trainer, RunResult& finished) const;

  const TrainingJob& job_;
  const DistributedContext& processes_;
  RunSetup setup_;
  SessionModels models_;
  std::unique_ptr<Reference> reference_;               // null: the method compares with none
  std::unique_ptr<Teacher> teacher_;                   // null: nothing is distilled
  std::unique_ptr<rl::PolicyTeacher> policy_teacher_;  // null: advantages come from rewards only
  std::unique_ptr<ParallelStrategy> data_ranks_;       // null: each process is one
};

}  // namespace hone::train
