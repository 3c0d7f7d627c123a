#include "hone/train/losses/infonce.h"

#include <limits>

namespace hone::train {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

Tensor rows_of(const Tensor& embeddings_sd, const std::vector<int64_t>& rows) {
  return embeddings_sd.index_select(0, at::tensor(rows, at::kLong).to(embeddings_sd.device()));
}

// The texts that each anchor is compared with: its positive first, then its negatives.
struct Comparison {
  std::vector<int64_t> anchors;
  std::vector<std::vector<int64_t>> documents;  // in each anchor's own row

  static Comparison of(const ContrastiveGroups& groups, const std::optional<int64_t>& hard_negatives) {
    Comparison all;
    for (int64_t g = 0; g < groups.count(); ++g) {
      int64_t anchor = groups.starts[static_cast<size_t>(g)], texts = groups.size(g);
      all.anchors.push_back(anchor);
      auto& own = all.documents.emplace_back();
      for (int64_t i = 1; i < texts; ++i) own.push_back(anchor + i);
      if (hard_negatives && texts > 2) {  // the same number for every row: truncated or repeated cyclically
        auto wanted = static_cast<size_t>(*hard_negatives) + 1, negatives = own.size() - 1;
        for (size_t i = 0; own.size() < wanted; ++i) own.push_back(own[1 + i % negatives]);
        own.resize(wanted);
      }
    }
    return all;
  }

  std::vector<int64_t> all_documents() const {
    std::vector<int64_t> list;
    for (const auto& own : documents) list.insert(list.end(), own.begin(), own.end());
    return list;
  }
  // Index of each anchor's positive among all documents.
  std::vector<int64_t> positives() const {
    std::vector<int64_t> list;
    int64_t at = 0;
    for (const auto& own : documents) list.push_back(std::exchange(at, at + static_cast<int64_t>(own.size())));
    return list;
  }
};

// [anchors, candidates] before the temperature; the positive of anchor i is in column positives[i].
Tensor similarities_in_batch(const Tensor& embeddings_sd, const Comparison& all, const InfonceConfig& config,
                             const Tensor& positives) {
  auto anchors = rows_of(embeddings_sd, all.anchors), documents = rows_of(embeddings_sd, all.all_documents());
  auto with_documents = at::matmul(anchors, documents.t());
  auto limit = with_documents.gather(1, positives.unsqueeze(1)).detach() + config.fake_margin;
  auto without_fakes = [&](const Tensor& values) {
    return config.mask_fake_negatives ? values.masked_fill(values > limit, kNever) : values;
  };
  TensorList columns{without_fakes(with_documents)};
  auto device = embeddings_sd.device();
  auto itself = at::eye(anchors.size(0), at::TensorOptions(at::kBool).device(device));
  if (config.include_queries) columns.push_back(without_fakes(at::matmul(anchors, anchors.t()).masked_fill(itself, kNever)));
  if (config.include_documents) {
    auto own =
        at::zeros(with_documents.sizes(), at::TensorOptions(at::kBool).device(device)).scatter(1, positives.unsqueeze(1), true);
    columns.push_back(at::matmul(documents.index_select(0, positives), documents.t()).masked_fill(own, kNever));
  }
  return at::cat(columns, 1);
}

}  // namespace

Tensor infonce_loss(const Tensor& embeddings_sd, const ContrastiveGroups& groups, const InfonceConfig& config) {
  auto all = Comparison::of(groups, config.hard_negatives);
  if (config.use_batch) {
    auto positives = at::tensor(all.positives(), at::kLong).to(embeddings_sd.device());
    auto similarities = similarities_in_batch(embeddings_sd, all, config, positives);
    return at::cross_entropy_loss(similarities / config.temperature, positives, {}, at::Reduction::Sum);
  }
  Tensor sum;
  auto first = at::zeros({1}, at::TensorOptions(at::kLong).device(embeddings_sd.device()));
  for (size_t i = 0; i < all.anchors.size(); ++i) {
    auto similarities = at::matmul(rows_of(embeddings_sd, {all.anchors[i]}), rows_of(embeddings_sd, all.documents[i]).t());
    auto loss = at::cross_entropy_loss(similarities / config.temperature, first, {}, at::Reduction::Sum);
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

std::vector<Metric> infonce_metrics(const Tensor& embeddings_sd, const ContrastiveGroups& groups, const InfonceConfig& config) {
  auto all = Comparison::of(groups, config.hard_negatives);
  auto documents = all.all_documents(), positives = all.positives();
  auto similarities =
      at::matmul(rows_of(embeddings_sd, all.anchors), rows_of(embeddings_sd, documents).t()).to(at::kCPU, at::kDouble);
  double likes = 0, apart = 0, margins = 0, pairs = 0, compared = 0;
  for (int64_t i = 0; i < similarities.size(0); ++i) {
    auto row = similarities[i];
    int64_t positive = positives[static_cast<size_t>(i)],
            own = static_cast<int64_t>(all.documents[static_cast<size_t>(i)].size());
    auto negatives = config.use_batch
                         ? at::cat({row.narrow(0, 0, positive), row.narrow(0, positive + 1, row.size(0) - positive - 1)})
                         : row.narrow(0, positive + 1, own - 1);
    double like = row[positive].item<double>();
    likes += like;
    if (negatives.numel() == 0) continue;
    apart += negatives.sum().item<double>();
    pairs += static_cast<double>(negatives.numel());
    margins += like - negatives.max().item<double>();
    compared += 1;
  }
  auto value = [&](double number) { return at::full({}, number, at::TensorOptions(at::kFloat).device(embeddings_sd.device())); };
  return {{"margin", value(margins), compared},
          {"mean_neg", value(apart), pairs},
          {"mean_pos", value(likes), static_cast<double>(similarities.size(0))}};
}

}  // namespace hone::train
