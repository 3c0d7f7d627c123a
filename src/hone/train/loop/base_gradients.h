// The gradient of the training loss with respect to base weights before training: for LoRA-GA's initialization.
#pragma once
#include "hone/train/run.h"
#include "hone/tuner/lora_ga.h"

namespace hone::train {

// Mean over `batches` batches of each batch's mean loss. The weights are frozen again afterwards.
tuner::BaseGradients base_gradients(model::CausalLM& model, const std::vector<model::Linear*>& layers, Loss& loss,
                                    data::Loader& loader, int64_t batches);

// The same over the first rows of a run's data, which are still trained on. Every process uses the same ones, so that all change
// the base alike. `rows` may be null (a stream); requesting gradients is then a user error.
tuner::GradientSource gradients_of_first_rows(const TrainingJob& job, std::shared_ptr<const text::Tokenizer> tokenizer,
                                              std::shared_ptr<const data::ConversationSource> rows);

}  // namespace hone::train
