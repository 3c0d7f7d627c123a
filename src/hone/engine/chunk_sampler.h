// Sampling of a scheduled chunk: picks tokens from its logits, accepts draft tokens as long as they agree, and reports them. Uses
// nothing but the chunk's own sequence, so that the chunks of a step can be sampled in parallel.
#pragma once
#include "hone/engine/model_runner.h"

namespace hone::engine {

class ChunkSampler {
 public:
  // `routed`, if given, stores the experts of each token; `weights_version` is that of the outputs.
  ChunkSampler(const StepLogits& logits, const RoutedExperts* routed, int64_t weights_version)
      : logits_(logits), routed_(routed), weights_version_(weights_version) {}

  // Advances the sequence of `chunk`, whose logits are those at `index` of the step. A request that cannot be satisfied ends with
  // an error, which the output has; a beam's logits become candidates of its search.
  RequestOutput sample(const ScheduledChunk& chunk, size_t index) const;

 private:
  RequestOutput advance(const ScheduledChunk& chunk, size_t index) const;
  bool has_nan(size_t index) const;

  const StepLogits& logits_;
  const RoutedExperts* routed_;
  int64_t weights_version_;
};

}  // namespace hone::engine
