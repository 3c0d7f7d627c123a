// The weights that a rollout server receives: only the adapter if there is one, otherwise every trainable weight.
#pragma once
#include <string>
#include <vector>

#include "hone/tuner/trained_files.h"

namespace hone::train::rl {

struct WeightsPayload {
  int64_t version = 0;             // 1 and up
  std::vector<std::string> parts;  // safetensors each

  size_t bytes() const;
};

// Throws UserError(usage) if a server cannot be updated: an adapter whose initialization changed the base weights.
void require_followable(const tuner::Tuned& tuned);
// The present weights: of an adapter in place, others by `read` where it is set.
WeightsPayload make_payload(model::CausalLM& model, const tuner::Tuned& tuned, int64_t version,
                            const tuner::ReadWeight& read = {});

}  // namespace hone::train::rl
