// A model that is ready to train, and how it lies on the processes of the run: whole, in shards, its sequences on several of them.
#pragma once
#include "hone/parallel/sequence_parallel.h"
#include "hone/train/companions.h"
#include "hone/train/data_parallel.h"
#include "hone/train/run.h"
#include "hone/train/saver.h"
#include "hone/tuner/tuner.h"

namespace hone::train {

class Reference;

struct LoadedModel {
  std::unique_ptr<model::CausalLM> model;
  tuner::Tuned tuned;
  std::unique_ptr<parallel::ShardedModel> sharded;       // null: every process has all of it
  std::unique_ptr<parallel::SequenceParallel> sequence;  // null: every sequence is on one process
  std::shared_ptr<Reference> reference;                  // null: the method compares with none
};

// Shards the model and splits its sequences, as far as the run asks for it.
LoadedModel spread(const TrainingJob& job, const Processes& processes, std::unique_ptr<model::CausalLM> model, tuner::Tuned tuned);

// The processes as the trainer sees them. `working` holds what the model computes with, `updated` what the optimizer changes: the same
// tensors or their masters.
std::unique_ptr<Group> group_of(const TrainingJob& job, const Processes& processes, LoadedModel& loaded,
                                const std::vector<optim::ParameterGroup>& working, const std::vector<optim::ParameterGroup>& updated);

// How what is trained becomes files and back. Weights that are spread over processes are fetched part by part.
WeightFiles weight_files(const TrainingJob& job, LoadedModel& loaded, const Companions& companions, bool main);

}  // namespace hone::train
