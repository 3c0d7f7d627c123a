// The reference model of preference and policy losses.
#pragma once
#include <functional>
#include <memory>

#include "hone/train/loaded_model.h"

namespace hone::train {

class Reference {
 public:
  virtual ~Reference() = default;
  // Runs `work` with the reference, without gradients and dropout. Before the pass that trains: under ZeRO-3 and FSDP every
  // process takes part. `trained` may become the reference for as long.
  virtual void with_reference(model::CausalLM& trained, const std::function<void(model::CausalLM&)>& work) = 0;
  // Whether it is the trained model as it is now, so that nothing has moved away from it.
  virtual bool is_trained_model() const { return false; }
  // Moves its weights towards those of `trained`, by a part. Of one that has weights of its own.
  virtual void follow(model::CausalLM& /*trained*/, double /*alpha*/) {}
};

// Null when the job needs none. Called when `tuned` is attached and the model is not sharded yet. A reference of its own becomes
// one of the run's models.
std::unique_ptr<Reference> make_reference(const TrainingJob& job, const text::Tokenizer& tokenizer,
                                          const DistributedContext& processes, model::CausalLM& model, const tuner::Tuned& tuned,
                                          SessionModels& models);
// The base beneath an adapter that trains and that took nothing out of it.
std::unique_ptr<Reference> base_as_reference(const tuner::Tuned& tuned);
// A frozen model of its own.
std::unique_ptr<Reference> model_as_reference(LoadedModel& model);
// The trained model as it is: before the first step, and where nothing else is available.
std::unique_ptr<Reference> policy_as_reference();

}  // namespace hone::train
