// The models of a run by name, each with its distribution over processes: replicated, sharded, in stages, with split sequences.
#pragma once
#include "hone/parallel/sequence_parallel.h"
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
  bool is_distributed() const { return sharded || tensor || stages; }
  // The trained parameters of this process.
  std::vector<std::pair<std::string, Tensor>> trained_here() const;
  double flops_per_token() const;  // by transformers' estimate: six operations per weight outside the embedding
  void keep_gathered(bool hold);   // while held, all of it is on every process; all of them call it
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

// The trained parameters of all models.
std::vector<optim::ParameterGroup> trained_groups(const TrainingJob& job, const SessionModels& models);
TensorList trained_tensors(const SessionModels& models);

// Disables the dropout of adapters, for methods that compare log-probabilities of two models; adapter_config.json keeps the
// requested value, as in ms-swift and LLaMA-Factory.
void switch_off_dropout(model::CausalLM& model);

}  // namespace hone::train
