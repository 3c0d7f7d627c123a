// Pearson and Spearman correlation between the similarities of pairs and their labels, over a full validation set.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hone/train/distributed/parallel_strategy.h"

namespace hone::train {

// From embeddings [pairs, d] of both sides and the labels: float64 [pairs, 5] on the CPU, the label, then each similarity.
Tensor paired_rows(const Tensor& first, const Tensor& second, const Tensor& labels);
// pearson_cosine … spearman_dot_product, as in sentence-transformers; nothing for fewer than two pairs.
std::vector<std::pair<std::string, double>> similarity_correlations(const std::vector<Tensor>& rows, ParallelStrategy& group);

}  // namespace hone::train
