// Likelihoods as requests to the engine: what several continuations share is computed once.
#pragma once
#include <vector>

#include "hone/engine/engine.h"

namespace hone::eval {

using Tokens = std::vector<text::TokenId>;

// The tokens to score and their context.
struct TokenPair {
  Tokens context, continuation;
};

// Continuations that differ only in their last token share one request: the model's computation is the same.
struct SharedRequest {
  Tokens prompt;     // context and continuation without the last token
  size_t start = 0;  // where the continuation starts: the length of the context
  std::vector<size_t> pairs;
  Tokens last;  // per pair
};

std::vector<SharedRequest> share_requests(const std::vector<TokenPair>& pairs);
engine::Request engine_request(const SharedRequest& shared);

// Completions in the order of the requests. Those whose contexts, the first `context_sizes[i]` tokens of each prompt, begin alike
// run on the same replica.
std::vector<engine::Completion> generate_grouped(engine::Engine& engine, std::vector<engine::Request> requests,
                                                 const std::vector<size_t>& context_sizes, const engine::OnDone& on_done);

}  // namespace hone::eval
