// Makes the collator and the loss of a job's method.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/run.h"

namespace hone::train {

class Reference;
class Teacher;

// The models a method uses beside the one that trains; null where it uses none. They live longer than the method.
struct OtherModels {
  Reference* reference = nullptr;          // of preference methods
  model::CausalLM* value_model = nullptr;  // PPO's critic where it is a model of its own
  Teacher* teacher = nullptr;
};
// What makes the payloads of its batches out of rows; empty where it needs none. Every loader of rows gets it.
data::PayloadCollator payload_collator(const TrainingJob& job);
std::unique_ptr<Loss> make_loss(const TrainingJob& job, const text::Tokenizer& tokenizer, const OtherModels& others);

// The tokens a generative reranker weighs against each other. Throws UserError(usage) for a word that is not one token.
void resolve_label_tokens(TaskConfig& task, const text::Tokenizer& tokenizer);

}  // namespace hone::train
