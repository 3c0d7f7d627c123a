#include "hone/train/losses/embedding.h"

#include <string>
#include <utility>
#include <vector>

#include "hone/base/error.h"
#include "hone/model/pooling.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/losses/infonce.h"

namespace hone::train {
namespace {

constexpr const char* kLikeness[] = {"cosine", "euclidean", "manhattan", "dot_product"};
constexpr int64_t kColumns = 5;

// The rows of all processes, concatenated in rank order.
Tensor gathered(const Tensor& own, ParallelStrategy& group) {
  auto counts = at::zeros({group.size()}, at::kDouble);
  counts[group.rank()] = static_cast<double>(own.size(0));
  group.all_reduce(counts);
  auto before = static_cast<int64_t>(counts.narrow(0, 0, group.rank()).sum().item<double>());
  auto all = at::zeros({static_cast<int64_t>(counts.sum().item<double>()), kColumns}, at::kDouble);
  all.narrow(0, before, own.size(0)).copy_(own);
  group.all_reduce(all);
  return all;
}

// Ranks from 1; equal values share their mean rank.
Tensor fractional_ranks(const Tensor& values) {
  auto below = (values.unsqueeze(0) < values.unsqueeze(1)).sum(1), equal = (values.unsqueeze(0) == values.unsqueeze(1)).sum(1);
  return below.to(at::kDouble) + (equal.to(at::kDouble) + 1) / 2;
}

double correlation(const Tensor& a, const Tensor& b) {
  auto x = a - a.mean(), y = b - b.mean();
  return ((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt()).item<double>();
}

// From embeddings [pairs, d] of both sides and the labels: float64 [pairs, 5] on the CPU, the label, then each similarity.
Tensor paired_rows(const Tensor& first, const Tensor& second, const Tensor& labels) {
  auto a = first.detach().to(at::kCPU, at::kDouble), b = second.detach().to(at::kCPU, at::kDouble);
  return at::stack({labels.detach().to(at::kCPU, at::kDouble), at::cosine_similarity(a, b), -(a - b).norm(2, 1),
                    -(a - b).abs().sum(1), (a * b).sum(1)},
                   1);
}

// pearson_cosine … spearman_dot_product, as in sentence-transformers; nothing for fewer than two pairs.
std::vector<std::pair<std::string, double>> similarity_correlations(const std::vector<Tensor>& rows, ParallelStrategy& group) {
  auto all = gathered(rows.empty() ? at::zeros({0, kColumns}, at::kDouble) : at::cat(rows), group);
  std::vector<std::pair<std::string, double>> measures;
  if (all.size(0) < 2) return measures;
  auto labels = all.select(1, 0), label_ranks = fractional_ranks(labels);
  for (int64_t i = 0; i < 4; ++i)
    measures.emplace_back(fmt::format("pearson_{}", kLikeness[i]), correlation(labels, all.select(1, i + 1)));
  for (int64_t i = 0; i < 4; ++i)
    measures.emplace_back(fmt::format("spearman_{}", kLikeness[i]),
                          correlation(label_ranks, fractional_ranks(all.select(1, i + 1))));
  return measures;
}

constexpr double kMargin = 0.5;  // beyond this, different texts need not be pushed further apart

// Each anchor and the text after it; pair losses use no others.
std::pair<Tensor, Tensor> pair_sides(const Tensor& embeddings_sd, const ContrastiveGroups& groups) {
  std::vector<int64_t> anchors(groups.starts.begin(), groups.starts.end() - 1), others;
  for (auto anchor : anchors) others.push_back(anchor + 1);
  auto pick = [&](const std::vector<int64_t>& rows) {
    return embeddings_sd.index_select(0, at::tensor(rows, at::kLong).to(embeddings_sd.device()));
  };
  return {pick(anchors), pick(others)};
}

Tensor pair_grades(const ContrastiveGroups& groups, at::Device device) {
  std::vector<float> grades;
  for (int64_t i = 0; i < groups.count(); ++i)
    grades.push_back(groups.grades[static_cast<size_t>(groups.starts[static_cast<size_t>(i)] - i)]);
  return at::tensor(grades).to(device);
}

// Only positives farther than some negative, and negatives nearer than some positive, contribute.
Tensor online_contrastive(const Tensor& distances, const Tensor& grades) {
  auto apart = distances.index({grades == 0}), like = distances.index({grades == 1});
  auto mean_or = [](const Tensor& values) { return values.numel() ? values.mean() : values.sum(); };
  auto farthest = like.numel() > 1 ? like.max() : mean_or(apart), nearest = apart.numel() > 1 ? apart.min() : mean_or(like);
  auto hard_apart = apart.index({apart < farthest}), hard_like = like.index({like > nearest});
  return hard_like.square().sum() + at::relu(kMargin - hard_apart).square().sum();
}

}  // namespace

ContrastiveGroups ContrastiveGroups::of(const std::vector<const data::Sample*>& texts) {
  ContrastiveGroups groups;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i]->sequence_labels.empty())
      groups.starts.push_back(static_cast<int64_t>(i));
    else
      groups.grades.push_back(texts[i]->sequence_labels.front());
  }
  groups.starts.push_back(static_cast<int64_t>(texts.size()));
  return groups;
}

data::PayloadCollator EmbeddingPayload::collator() {
  return [](const std::vector<const data::Sample*>& texts) {
    auto payload = std::make_shared<EmbeddingPayload>();
    payload->groups = ContrastiveGroups::of(texts);
    return payload;
  };
}

double EmbeddingLoss::num_items(const data::Batch& batch) const {
  if (config_.loss == "online_contrastive") return 1;  // a sum over the hard pairs of a batch, whose number is unknown before
  return static_cast<double>(data::payload_of<EmbeddingPayload>(batch).groups.count());
}

Tensor EmbeddingLoss::sum(const Tensor& embeddings_sd, const ContrastiveGroups& groups) const {
  if (config_.loss == "infonce") return infonce_loss(embeddings_sd, groups, config_.infonce);
  auto [anchors, others] = pair_sides(embeddings_sd, groups);
  auto similarities = at::cosine_similarity(anchors, others);
  auto grades = pair_grades(groups, embeddings_sd.device());
  if (config_.loss == "cosine_similarity") return (similarities - grades).square().sum();
  auto distances = 1 - similarities;
  if (config_.loss == "online_contrastive") return online_contrastive(distances, grades);
  HONE_CHECK(config_.loss == "contrastive", "{} is not a loss of embeddings", config_.loss);
  return 0.5 * (grades * distances.square() + (1 - grades) * at::relu(kMargin - distances).square()).sum();
}

LossSum EmbeddingLoss::loss(const ForwardOutputs& outputs, const EmbeddingPayload& payload) {
  auto embeddings_sd = model::embeddings(outputs.model, outputs.last_token_states());
  const auto& groups = payload.groups;
  LossSum result;
  if (config_.mrl_dims.empty()) result.sum = sum(embeddings_sd, groups);
  for (const auto& [dimensions, weight] : config_.mrl_dims) {
    auto part = weight * sum(model::normalize_embeddings(embeddings_sd.narrow(1, 0, dimensions)), groups);
    result.sum = result.sum.defined() ? result.sum + part : part;
  }
  if (of_pairs() && !outputs.model.training()) {
    auto [anchors, others] = pair_sides(embeddings_sd, groups);
    result.eval_outputs = paired_rows(anchors, others, pair_grades(groups, embeddings_sd.device()));
  }
  if (!of_pairs()) result.metrics = infonce_metrics(embeddings_sd.detach(), groups, config_.infonce);
  return result;
}

std::vector<std::pair<std::string, double>> EmbeddingLoss::dataset_metrics(const std::vector<Tensor>& kept,
                                                                           ParallelStrategy& group) const {
  if (!of_pairs()) return {};
  return similarity_correlations(kept, group);
}

}  // namespace hone::train
