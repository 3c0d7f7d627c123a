// The sampler and the trainer may compute different log-probabilities: other kernels, or weights that are some updates old. The
// difference is logged, and importance sampling corrects for it, as in ms-swift and trl.
#pragma once
#include <vector>

#include "hone/train/methods/loss.h"

namespace hone::train {

enum class RolloutCorrectionMode { none, token_truncate, token_mask, sequence_truncate, sequence_mask };

struct RolloutCorrectionConfig {
  RolloutCorrectionMode mode = RolloutCorrectionMode::none;
  double threshold = 2.0;  // of the ratio
  bool report = false;     // ms-swift's rollout_correction/… without a correction, too
};

// Concatenated tokens of completions [N], with the log-probabilities of trainer and sampler.
struct RolloutDrift {
  Tensor trainer_n, sampler_n;
  Tensor mask_n;        // float: 0 for masked tokens
  Tensor completion_n;  // which completion it belongs to
  int64_t num_completions = 0;
};

// [N], weights of the token losses; undefined without correction.
Tensor rollout_weights(const RolloutDrift& drift, const RolloutCorrectionConfig& config);
// trl's sampling/… and, if requested, ms-swift's rollout_correction/…
void report_drift(const RolloutDrift& drift, const Tensor& weights_n, const RolloutCorrectionConfig& config,
                  std::vector<Metric>& metrics);

}  // namespace hone::train
