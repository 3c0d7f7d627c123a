// A complete training run: from a model folder and datasets to checkpoints, logs and plots. Front ends fill in a TrainingJob.
#pragma once
#include <string>

#include "hone/data/batches/make_loader.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/encode/encoder.h"
#include "hone/model/causal_lm.h"
#include "hone/model/encoders/tower_cache.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/ops/moe/expert_capacity.h"
#include "hone/optim/factory.h"
#include "hone/optim/lr_scheduler.h"
#include "hone/optim/param_groups.h"
#include "hone/text/new_tokens.h"
#include "hone/train/checkpoints/hub_push.h"
#include "hone/train/config.h"
#include "hone/train/distillation/config.h"
#include "hone/train/distributed/distributed_context.h"
#include "hone/train/evaluation/benchmark.h"
#include "hone/train/evaluation/predict.h"
#include "hone/train/losses/sft.h"
#include "hone/train/methods/preference.h"
#include "hone/train/methods/task.h"
#include "hone/train/rl/config.h"
#include "hone/train/suggested_commands.h"
#include "hone/tuner/config.h"

namespace hone::train {

// A training run as the command line describes it: the configs of all components, and what does not belong to one of them.
struct TrainingJob {
  std::string stage = "sft";                                  // sft, pt, or the preference method
  bool do_train = true, do_eval = false, do_predict = false;  // after training; evaluation during it is the trainer's
  bool predict_with_generate = false;
  Benchmark benchmark;                       // in evaluations during training; empty: none
  std::optional<at::ScalarType> eval_dtype;  // of the weights in evaluation and prediction after training or without it

  fs::path model_folder;
  std::string model_name;  // as given, for cards and messages
  model::LoadOptions load;
  bool from_scratch = false;  // random weights in the shape of config.json
  text::NewTokens new_tokens;
  std::function<model::EmbeddingResize(const text::Tokenizer&)> resize_embeddings;  // empty: the vocabulary stays as it is
  model::ActivationCheckpointingConfig activation_checkpointing;
  std::optional<model::TowerCacheConfig> tower_cache;  // cache of the outputs of frozen towers; none: no cache
  double neftune_alpha = 0;
  std::optional<ops::ExpertCapacity> expert_capacity;  // in training; unset: no token is dropped
  bool float8 = false;                                 // FP8 GEMMs in the linear layers of the blocks
  bool shifted_attention = false;                      // LongLoRA's
  bool print_parameters = false;                       // every parameter with its type, device and whether it trains

  data::DatasetConfig datasets;
  data::EncodeConfig encode;
  fs::path tokenized_path;  // writes rows here as token ids; empty: does not
  data::LoaderConfig loader, eval_loader;
  GenerationConfig generation;

  tuner::TunerConfig tuner;
  optim::OptimizerConfig optimizer;
  optim::ParamGroupConfig groups;
  optim::LrSchedulerConfig schedule;  // total and warm-up steps are filled in when the number of steps is known
  optim::WarmupConfig warmup;
  TaskConfig task;  // text generation, or a task with its own loss
  SftConfig sft;
  PreferenceConfig preference;
  std::optional<DistillationConfig> distillation;        // set: the student learns a teacher's distributions
  std::optional<rl::ReinforcementConfig> reinforcement;  // set: rows are prompts, and the model learns from rewards
  TrainerConfig trainer;
  ParallelConfig parallel;
  bool split_batches = false;         // batch sizes count the rows of all processes, not of one
  std::optional<HubPushConfig> push;  // where checkpoints and the result are sent
  size_t max_shard_bytes = 5'000'000'000;

  Json args = Json::object();  // every resolved option, for args.json
  std::string chosen;          // the values of "auto" options, logged once the command has been validated
  SuggestedCommands commands;  // empty: none are suggested
};

// Identifies what is trained: model, data, tuner and stage. Independent of learning rate and duration.
std::string run_identity(const TrainingJob& job);

// "sft of Qwen2.5-7B-Instruct": the run's name in messages.
std::string display_name(const TrainingJob& job);

// The length of rows if they are packed or truncated, else a typical one: an estimate for planning.
int64_t expected_row_length(const TrainingJob& job);

// Validates everything possible in advance, loads the model, trains, saves and reports. Returns the exit code; a UserError has
// its own.
int run_training(const TrainingJob& job);

}  // namespace hone::train
