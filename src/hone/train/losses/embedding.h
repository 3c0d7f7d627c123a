// Embeddings: texts that belong together get similar vectors. ms-swift's losses on the normalized hidden state of the last token
// of each text.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/methods/task.h"

namespace hone::train {

// A batch of anchors, each followed by its positive and its negatives; labels of all but the anchors.
struct ContrastiveGroups {
  std::vector<int64_t> starts;  // the index of each anchor; one more: the number of texts
  std::vector<float> grades;

  static ContrastiveGroups of(const std::vector<const data::Sample*>& texts);
  int64_t count() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t size(int64_t group) const { return starts[static_cast<size_t>(group) + 1] - starts[static_cast<size_t>(group)]; }
};

struct EmbeddingPayload : data::PayloadOf<EmbeddingPayload> {
  ContrastiveGroups groups;

  static data::PayloadCollator collator();
};

class EmbeddingLoss final : public LossOf<EmbeddingPayload> {
 public:
  explicit EmbeddingLoss(const TaskConfig& config) : config_(config) {}

  double num_items(const data::Batch& batch) const override;
  LossSum loss(const ForwardOutputs& outputs, const EmbeddingPayload& payload) override;
  std::vector<std::pair<std::string, double>> dataset_metrics(const std::vector<Tensor>& kept,
                                                              ParallelStrategy& group) const override;

 private:
  Tensor sum(const Tensor& embeddings_sd, const ContrastiveGroups& groups) const;
  bool of_pairs() const { return config_.loss != "infonce"; }
  TaskConfig config_;
};

}  // namespace hone::train
