// A model that is ready to train, and how it is on the processes of the run: whole, in shards, its sequences on several of them.
#pragma once
#include "hone/parallel/sequence_parallel.h"
#include "hone/train/checkpoints/checkpoint_assets.h"
#include "hone/train/checkpoints/checkpoint_manager.h"
#include "hone/train/distributed/data_parallel.h"
#include "hone/train/run.h"
#include "hone/tuner/tuner.h"

namespace hone::train {

class Reference;
class Teacher;

struct LoadedModel {
  std::unique_ptr<model::CausalLM> model;
  tuner::Tuned tuned;
  std::unique_ptr<parallel::ShardedModel> sharded;       // null: every process has all of it
  std::unique_ptr<parallel::SequenceParallel> sequence;  // null: every sequence is on one process
  std::shared_ptr<Reference> reference;                  // null: the method compares with none
  std::shared_ptr<Teacher> teacher = nullptr;            // null: nothing is distilled
  std::unique_ptr<LoadedModel> value_model = nullptr;    // that trains beside it (methods/value_model.h); null: none
};

// Shards the model and splits its sequences, as far as the run asks for it.
LoadedModel shard_model(const TrainingJob& job, const DistributedContext& processes, std::unique_ptr<model::CausalLM> model,
                        tuner::Tuned tuned);

// The processes as the trainer sees them. `working` holds what the model computes with, `updated` what the optimizer changes: the
// same tensors or their masters.
std::unique_ptr<ParallelStrategy> make_strategy(const TrainingJob& job, const DistributedContext& processes, LoadedModel& loaded,
                                                const std::vector<optim::ParameterGroup>& working,
                                                const std::vector<optim::ParameterGroup>& updated);

// How what is trained becomes files and back. Weights that are spread over processes are fetched part by part.
WeightFiles weight_files(const TrainingJob& job, LoadedModel& loaded, const CheckpointAssets& companions, bool main);

}  // namespace hone::train
