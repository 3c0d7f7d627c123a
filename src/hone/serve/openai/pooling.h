// Pooling models: a chat whose response is a class or a score as in ms-swift, vLLM's routes for classification, scores and
// reranking, and LLaMA-Factory's for scores of reward models.
#pragma once
#include "hone/serve/context.h"

namespace hone::serve {

asio::awaitable<void> pooling_chat(Exchange& exchange, Context& context);
asio::awaitable<void> classify(Exchange& exchange, Context& context);
asio::awaitable<void> rerank(Exchange& exchange, Context& context);
asio::awaitable<void> score_pairs(Exchange& exchange, Context& context);
asio::awaitable<void> score_texts(Exchange& exchange, Context& context);

constexpr size_t kMostTexts = 256, kMostTextBytes = 32 << 20;  // of one request

// A plain text as the model was trained to read it.
std::vector<text::TokenId> encode_pooling_text(const std::string& text, const ServedModel& served, const std::string& where);

}  // namespace hone::serve
