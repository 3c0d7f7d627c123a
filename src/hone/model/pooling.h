// What a model says of whole texts, read where each one ends: classes, an embedding, relevance. Training, inference and the
// server all ask here.
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/text/tokenizer.h"

namespace hone::model {

// The hidden state of each segment's last token, [S, hidden], differentiable.
Tensor pool_last_token(CausalLM& model, const ForwardInput& input);
Tensor last_token_states(const Tensor& hidden_th, const ops::CuSeqlens& segments);  // the same of states that are there already

// Scores of a classifier, float32 [S, labels].
Tensor classification_logits(CausalLM& model, const Tensor& states_sh);
// Of length 1, float32 [S, hidden].
Tensor normalize_embeddings(const Tensor& states_sh);
// How much rather the model would go on with one token than with another, float32 [S]: a generative reranker's score.
Tensor yes_no_logits(CausalLM& model, const Tensor& states_sh, text::TokenId yes, text::TokenId no);

// Log-probabilities of these tokens where each text ends, float32 [S, tokens]: what a model says for the options of a decision.
Tensor token_logps(CausalLM& model, const Tensor& states_sh, const std::vector<text::TokenId>& tokens);

}  // namespace hone::model
