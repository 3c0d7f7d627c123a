// What samples completions may compute other log-probabilities than what trains on them: an engine of other kernels, weights that
// are some updates old. How far they lie apart is logged, and importance sampling corrects for it, as in ms-swift and trl.
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

// Tokens of completions end to end, [N]: what the trainer and the sampler thought of them.
struct RolloutDrift {
  Tensor trainer_n, sampler_n;
  Tensor mask_n;    // float: 0 where a token takes no part
  Tensor answer_n;  // which completion it belongs to
  int64_t answers = 0;
};

// [N], what token losses are multiplied by; undefined where nothing is corrected.
Tensor rollout_weights(const RolloutDrift& drift, const RolloutCorrectionConfig& config);
// trl's sampling/… and, where asked for, ms-swift's rollout_correction/…
void report_drift(const RolloutDrift& drift, const Tensor& weights_n, const RolloutCorrectionConfig& config,
                  std::vector<Metric>& metrics);

}  // namespace hone::train
