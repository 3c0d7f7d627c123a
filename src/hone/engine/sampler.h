// One row of logits to one token, with transformers' meaning of each setting and an own random stream per request.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hone/base/rng.h"
#include "hone/text/tokenizer.h"

namespace hone::engine {

struct SamplingConfig {
  bool sample = false;  // false: the most likely token, whatever the other settings but repetition_penalty
  double temperature = 1.0;
  int64_t top_k = 0;  // 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  uint64_t seed = 42;
};

class Sampler {
 public:
  Sampler(const SamplingConfig& config, uint64_t stream) : config_(config), rng_(config.seed, stream) {}

  // `context` is every token so far, prompt included. `logits` is changed in place.
  text::TokenId next(std::span<float> logits, std::span<const text::TokenId> context);

 private:
  void penalise_repetition(std::span<float> logits, std::span<const text::TokenId> context) const;
  SamplingConfig config_;
  Rng rng_;
};

}  // namespace hone::engine
