// Sequence-level outputs at the end of each text: classes, an embedding, relevance. Used by training, inference and the
// server.
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/text/tokenizer.h"

namespace hone::model {

// The hidden state of each segment's last token, [S, hidden], differentiable.
Tensor pool_last_token(CausalLM& model, const ForwardInput& input);
Tensor last_token_states(const Tensor& hidden_th, const ops::CuSeqlens& segments);  // the same of states that are there already

// Scores of a classifier, float32 [S, labels].
Tensor classification_logits(CausalLM& model, const Tensor& states_sh);
// Normalized to length 1, float32 [S, hidden].
Tensor embeddings(CausalLM& model, const Tensor& states_sh);
Tensor normalize_embeddings(const Tensor& states_sh);  // the same of vectors that are equal on all tensor parallel ranks
// The logit difference between two tokens, float32 [S]: a generative reranker's score.
Tensor yes_no_logits(CausalLM& model, const Tensor& states_sh, text::TokenId yes, text::TokenId no);

// Log-probabilities of these tokens at the end of each text, float32 [S, tokens]: the options of a decision.
Tensor token_logps(CausalLM& model, const Tensor& states_sh, const std::vector<text::TokenId>& tokens);

}  // namespace hone::model
