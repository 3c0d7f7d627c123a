// What a rollout server is sent of a model that trains: the adapter alone where there is one, else every weight that trains.
#pragma once
#include <string>
#include <vector>

#include "hone/tuner/tuner.h"

namespace hone::train::rl {

struct WeightsPayload {
  int64_t version = 0;             // 1 and up
  std::vector<std::string> parts;  // safetensors each

  size_t bytes() const;
};

// Throws UserError(usage) where a server cannot follow: an adapter that took its start out of the base.
void require_followable(const tuner::Tuned& tuned);
// The weights as they are now, gathered by the caller.
WeightsPayload make_payload(model::CausalLM& model, const tuner::Tuned& tuned, int64_t version);

}  // namespace hone::train::rl
