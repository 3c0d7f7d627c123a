// The training loss's gradient with respect to base weights before anything is trained: what LoRA-GA starts from.
#pragma once
#include "hone/train/run.h"
#include "hone/tuner/lora_ga.h"

namespace hone::train {

// Mean over `batches` batches of each batch's mean loss. The weights are frozen again afterwards.
tuner::BaseGradients base_gradients(model::CausalLM& model, const std::vector<model::Linear*>& layers, Loss& method,
                                    data::Loader& loader, int64_t batches);

// The same over the first rows of a run's data, which stay the first rows of its training too. Every process takes the same ones,
// so that all change the base alike. `rows` may be null (a stream); asking for gradients is then an error of the user.
tuner::GradientSource gradients_of_first_rows(const TrainingJob& job, std::shared_ptr<const text::Tokenizer> tokenizer,
                                              std::shared_ptr<const data::ConversationSource> rows);

}  // namespace hone::train
