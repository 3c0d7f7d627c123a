// InfoNCE: identifies each anchor's positive among all texts of a batch. Optionally with the terms of Qwen3-Embedding.
#pragma once
#include "hone/train/losses/embedding.h"

namespace hone::train {

// Cross-entropy of each anchor's positive, summed over the anchors.
Tensor infonce_loss(const Tensor& embeddings_sd, const ContrastiveGroups& groups, const InfonceConfig& config);

// margin (positive above the nearest negative), mean_pos and mean_neg of the similarities, within the batch.
std::vector<Metric> infonce_metrics(const Tensor& embeddings_sd, const ContrastiveGroups& groups, const InfonceConfig& config);

}  // namespace hone::train
