// InfoNCE over the texts of a request, as Twinkle's server computes it: "labels" of a datum is 1 for an anchor, which its
// positive and its negatives follow, and 0 for these. Unlike the protocol's own losses it is a mean, over the anchors of a
// request.
#pragma once
#include "hone/tinker/wire/forward_backward.h"
#include "hone/train/losses/infonce.h"

namespace hone::tinker {

class ContrastiveLoss {
 public:
  static bool is_requested(const ForwardBackwardRequest& request) { return request.loss_fn == "infonce"; }
  // Throws RequestError for other settings, or data that are not groups.
  explicit ContrastiveLoss(const ForwardBackwardRequest& request);

  // The mean loss of normalized embeddings, one per datum.
  Tensor mean(const Tensor& embeddings_sd) const;
  // Similarities of anchors and positives, "name:reduction".
  std::map<std::string, double> metrics(const Tensor& embeddings_sd) const;

 private:
  train::ContrastiveGroups groups_;
  train::InfonceConfig config_;
};

}  // namespace hone::tinker
