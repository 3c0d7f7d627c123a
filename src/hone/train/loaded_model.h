// The models of a run by name, and their distribution over processes: replicated, sharded, or with split sequences.
#pragma once
#include "hone/parallel/sequence_parallel.h"
#include "hone/train/checkpoints/checkpoint_assets.h"
#include "hone/train/checkpoints/checkpoint_manager.h"
#include "hone/train/distributed/data_parallel.h"
#include "hone/train/distributed/pipeline_parallel.h"
#include "hone/train/distributed/tensor_data_parallel.h"
#include "hone/train/run.h"
#include "hone/tuner/tuner.h"

namespace hone::train {

// The model that generates and is the run's result. Other trained models are saved in a subfolder with their name, which also
// prefixes their parameters.
inline constexpr const char* kPolicy = "policy";
inline constexpr const char* kReferenceModel = "reference";
inline constexpr const char* kTeacherModel = "teacher";
inline constexpr const char* kValueModel = "value_model";  // PPO's critic (methods/value_model.h)

struct LoadedModel {
  std::string name;
  std::shared_ptr<model::CausalLM> model;                      // a sampler may hold it, too
  tuner::Tuned tuned = {};                                     // of a frozen model: nothing
  std::unique_ptr<parallel::ShardedModel> sharded = {};        // null: every process has all of it
  std::unique_ptr<parallel::SequenceParallel> sequence = {};   // null: every sequence is on one process
  std::unique_ptr<parallel::PipelineModel> stages = {};        // null: every block is on this process
  std::unique_ptr<PipelineSchedule> schedule = {};             // with stages
  std::unique_ptr<parallel::TensorParallelModel> tensor = {};  // null: every layer is on one process

  bool trains() const { return !tuned.trainable.empty(); }
  bool is_spread() const { return sharded || tensor || stages; }
  void keep_gathered(bool hold);  // while held, all of it is on every process; all of them call it
  // Runs `work` with a frozen model, without gradients. Collective if the model is sharded.
  void run_frozen(const std::function<void(model::CausalLM&)>& work);
};

class SessionModels {
 public:
  SessionModels() = default;
  ~SessionModels();  // models that others hold no longer split sequences
  SessionModels(const SessionModels&) = delete;

  LoadedModel& add(LoadedModel model);
  LoadedModel* find(std::string_view name) const;  // null: the run has none of this name
  LoadedModel& policy() const;
  std::vector<LoadedModel*> trained() const;  // the policy first, also one of which nothing trains

 private:
  std::vector<std::unique_ptr<LoadedModel>> models_;  // which others point at
};

// Shards a trained model and splits its sequences, as the run requests.
LoadedModel shard_model(const TrainingJob& job, const DistributedContext& processes, const char* name,
                        std::shared_ptr<model::CausalLM> model, tuner::Tuned tuned);
// Tells another model that the sequences of its batches are split like those of the policy.
void split_sequences_of(LoadedModel& other, parallel::SequenceParallel& sequence, const DistributedContext& processes);
// A model that is not trained, with the layout of those that are: shards, stages, tensor parallelism.
LoadedModel freeze_model(const TrainingJob& job, const DistributedContext& processes, const char* name,
                         std::unique_ptr<model::CausalLM> model);

// The trained parameters of all models.
std::vector<optim::ParameterGroup> trained_groups(const TrainingJob& job, const SessionModels& models);
TensorList trained_tensors(const SessionModels& models);

// How an optimizer reaches full matrices of tensor parallel models. `working` are the tensors that the models compute with.
optim::MatrixShards matrix_shards(const SessionModels& models, const std::vector<optim::ParameterGroup>& working);

// The trainer's parallel strategy. `working` are the tensors the model computes with, `updated` those the optimizer changes: the
// same tensors or their master weights.
std::unique_ptr<ParallelStrategy> make_strategy(const TrainingJob& job, const DistributedContext& processes,
                                                const SessionModels& models, const std::vector<optim::ParameterGroup>& working,
                                                const std::vector<optim::ParameterGroup>& updated);

// Saves and loads what is trained. Distributed weights are gathered part by part.
WeightFiles weight_files(const TrainingJob& job, const DistributedContext& processes, LoadedModel& loaded,
                         const CheckpointAssets& companions);
// The files of the policy and of a model that trains with it, written as one: the latter's in a folder of its name.
WeightFiles with_second_model(const TrainingJob& job, WeightFiles policy, WeightFiles second_files, LoadedModel& second);

}  // namespace hone::train
