// The reference model of preference and policy losses.
#pragma once
#include <functional>
#include <memory>

#include "hone/train/loaded_model.h"

namespace hone::train {

class Reference {
 public:
  virtual ~Reference() = default;
  // Runs `work` with the reference, without gradients and dropout. Call it before the training pass: collective under ZeRO-3 and
  // FSDP. `trained` may act as the reference meanwhile.
  virtual void with_reference(model::CausalLM& trained, const std::function<void(model::CausalLM&)>& work) = 0;
  // Whether it is currently identical to the trained model, so that all log-ratios are zero.
  virtual bool is_trained_model() const { return false; }
  // Moves its weights towards those of `trained`. Only for a reference with its own weights.
  virtual void follow(model::CausalLM& /*trained*/, double /*alpha*/) {}
};

// Null if the job needs none. Call it after `tuned` is attached and before the model is sharded. A separate reference becomes one
// of the run's models.
std::unique_ptr<Reference> make_reference(const TrainingJob& job, const text::Tokenizer& tokenizer,
                                          const DistributedContext& processes, model::CausalLM& model, const tuner::Tuned& tuned,
                                          SessionModels& models);
// The base model under a trained adapter that did not change it.
std::unique_ptr<Reference> base_as_reference(const tuner::Tuned& tuned);
// A separate frozen model.
std::unique_ptr<Reference> model_as_reference(LoadedModel& model);
// The trained model itself: before the first step, and if nothing else is available.
std::unique_ptr<Reference> policy_as_reference();

}  // namespace hone::train
