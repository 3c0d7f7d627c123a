// Makes the loss that a job asks for.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/run.h"

namespace hone::train {

class Reference;

// `reference` is what preference methods compare with, null for others; `value_model` is PPO's critic where it is a model of its
// own. Both live longer than the method.
std::unique_ptr<Loss> make_loss(const TrainingJob& job, const text::Tokenizer& tokenizer, Reference* reference,
                                model::CausalLM* value_model = nullptr);

// The tokens a generative reranker weighs against each other. Throws UserError(usage) for a word that is not one token.
void resolve_label_tokens(TaskConfig& task, const text::Tokenizer& tokenizer);

}  // namespace hone::train
