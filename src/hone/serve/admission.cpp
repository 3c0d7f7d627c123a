#include "hone/serve/admission.h"

#include "hone/serve/http/api_error.h"

namespace hone::serve {

void Admission::refuse() const {
  metrics_.refused();
  ApiError problem(429, "the server is full; try again", "", "overloaded");
  problem.retry_after = 1;
  throw problem;
}

Admission::Permit Admission::acquire() {
  if (!loop_.has_room(permits_ + 1)) refuse();
  ++permits_;
  return Permit(*this);
}

void Admission::check_fits(const EngineLoop::Load& load) const {
  const auto& limits = loop_.limits();
  if (load.sequences > limits.live_sequences)
    throw ApiError(
        400,
        fmt::format("the request asks for {} completions; this server holds at most {} (`vllm_max_num_seqs` and `max_queue`)",
                    load.sequences, limits.live_sequences),
        "n", "too_many_answers");
  if (load.tokens > limits.live_tokens)
    throw ApiError(
        400,
        fmt::format("its prompts and maximum completions add up to {} tokens; this server holds at most {} (`max_live_tokens`)",
                    load.tokens, limits.live_tokens),
        "max_tokens", "too_many_tokens");
}

void Admission::Permit::hold_tokens(size_t tokens) {
  owner_->check_fits({.tokens = tokens});
  if (owner_->loop_.live_tokens() + owner_->tokens_ + tokens > owner_->loop_.limits().live_tokens) owner_->refuse();
  tokens_ += tokens;
  owner_->tokens_ += tokens;
}

void Admission::Permit::leave() {
  if (!owner_) return;
  --owner_->permits_;
  owner_->tokens_ -= tokens_;
  owner_ = nullptr;
}

}  // namespace hone::serve
