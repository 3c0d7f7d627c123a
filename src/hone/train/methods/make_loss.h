// Creates the collator and the loss of a job's method.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/run.h"

namespace hone::train {

class Reference;
class Teacher;

// The models a method uses besides the trained one; null if unused. They outlive the method.
struct OtherModels {
  Reference* reference = nullptr;          // of preference methods
  model::CausalLM* value_model = nullptr;  // PPO's critic where it is a model of its own
  Teacher* teacher = nullptr;
};
// Makes the payloads of its batches from rows; empty if it needs none. Every row loader gets it.
data::PayloadCollator payload_collator(const TrainingJob& job);
std::unique_ptr<Loss> make_loss(const TrainingJob& job, const text::Tokenizer& tokenizer, const OtherModels& others);

// The two tokens that a generative reranker compares. Throws UserError(usage) for a word that is not one token.
void resolve_label_tokens(TaskConfig& task, const text::Tokenizer& tokenizer);

}  // namespace hone::train
