// DPO as Twinkle's server computes it: importance_sampling over data with "ref_logps", of which every second one is the rejected
// completion to the one before it. Unlike the protocol's own losses it is a mean, over the pairs of a request.
#pragma once
#include "hone/device/tensor.h"
#include "hone/tinker/wire/forward_backward.h"

namespace hone::tinker {

// Sums over pairs, and their means under Twinkle's names.
struct PairMetrics {
  double chosen_logps = 0, rejected_logps = 0, chosen_rewards = 0, rejected_rewards = 0, correct = 0;
  int64_t pairs = 0;

  void add(const PairMetrics& other);
  std::map<std::string, double> means(const std::string& suffix) const;  // none without pairs
};

class PairLoss {
 public:
  static bool is_requested(const ForwardBackwardRequest& request);
  // Throws RequestError for other settings, or data that are not pairs.
  explicit PairLoss(const ForwardBackwardRequest& request);

  // `data` are pairs of the request, `logps` those of all their targets: their part of the mean. Adds to `metrics`.
  Tensor sum(const std::vector<const Datum*>& data, const Tensor& logps, PairMetrics& metrics) const;

 private:
  double beta_ = 0, sft_weight_ = 0;
  double pairs_ = 0, chosen_tokens_ = 0;  // of the request
};

}  // namespace hone::tinker
