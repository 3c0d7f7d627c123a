#include "hone/serve/admission.h"

#include "hone/serve/http/problem.h"

namespace hone::serve {

void Admission::refuse() const {
  metrics_.refused();
  Problem problem(429, "the server is full; try again", "", "overloaded");
  problem.retry_after = 1;
  throw problem;
}

Admission::Place Admission::enter(size_t body_bytes) {
  bool first = places_ == 0;  // one body is always taken, whatever its size: the connection has bounded it
  if (!loop_.has_room(places_ + 1) || (!first && bytes_ + body_bytes > loop_.limits().request_bytes)) refuse();
  ++places_;
  bytes_ += body_bytes;
  return {*this, body_bytes};
}

void Admission::Place::hold_tokens(size_t tokens) {
  if (house_->loop_.live_tokens() + house_->tokens_ + tokens > house_->loop_.limits().live_tokens) house_->refuse();
  tokens_ += tokens;
  house_->tokens_ += tokens;
}

void Admission::Place::leave() {
  if (!house_) return;
  --house_->places_;
  house_->bytes_ -= bytes_;
  house_->tokens_ -= tokens_;
  house_ = nullptr;
}

}  // namespace hone::serve
