// How well likeness of pairs follows their labels over a whole validation set: Pearson's and Spearman's correlation.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hone/train/group.h"

namespace hone::train {

// Of embeddings [pairs, d] of both sides and what the rows say: float64 [pairs, 5] on the CPU, the label, then each likeness.
Tensor paired_rows(const Tensor& first, const Tensor& second, const Tensor& labels);
// pearson_cosine … spearman_dot_product, as sentence-transformers names them; nothing of fewer than two pairs.
std::vector<std::pair<std::string, double>> paired_measures(const std::vector<Tensor>& rows, Group& group);

}  // namespace hone::train
