// Generates completions for a validation set, for text metrics and generated_predictions.jsonl.
#pragma once
#include "hone/data/datasets/source.h"
#include "hone/data/encode/encoder.h"
#include "hone/engine/engine.h"
#include "hone/train/evaluation/evaluate.h"

namespace hone::train {

struct GenerationConfig {
  engine::SamplingParams sampling;
  size_t batch_size = 1;
  int64_t max_context = 0;  // longest prompt and completion together; 0: the model's
};

// Each row's last response is the reference for generating from everything before it. Rows that cannot be encoded are skipped
// with a warning.
std::vector<Prediction> predict_completions(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer,
                                            const data::Encoder& encoder, const data::ConversationSource& rows,
                                            const GenerationConfig& config);

}  // namespace hone::train
