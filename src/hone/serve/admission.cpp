#include "hone/serve/admission.h"

#include "hone/serve/http/problem.h"

namespace hone::serve {

void Admission::refuse() const {
  metrics_.refused();
  Problem problem(429, "the server is full; try again", "", "overloaded");
  problem.retry_after = 1;
  throw problem;
}

Admission::Place Admission::enter() {
  if (!loop_.has_room(places_ + 1)) refuse();
  ++places_;
  return Place(*this);
}

void Admission::check_fits(const EngineLoop::Load& load) const {
  const auto& limits = loop_.limits();
  if (load.answers > limits.live_answers)
    throw Problem(
        400,
        fmt::format("the request asks for {} answers; this server holds at most {} (--vllm_max_num_seqs and --max_queue)",
                    load.answers, limits.live_answers),
        "n", "too_many_answers");
  if (load.tokens > limits.live_tokens)
    throw Problem(
        400,
        fmt::format("its prompts and longest answers have {} tokens together; this server holds at most {} (--max_live_tokens)",
                    load.tokens, limits.live_tokens),
        "max_tokens", "too_many_tokens");
}

void Admission::Place::hold_tokens(size_t tokens) {
  house_->check_fits({.tokens = tokens});
  if (house_->loop_.live_tokens() + house_->tokens_ + tokens > house_->loop_.limits().live_tokens) house_->refuse();
  tokens_ += tokens;
  house_->tokens_ += tokens;
}

void Admission::Place::leave() {
  if (!house_) return;
  --house_->places_;
  house_->tokens_ -= tokens_;
  house_ = nullptr;
}

}  // namespace hone::serve
