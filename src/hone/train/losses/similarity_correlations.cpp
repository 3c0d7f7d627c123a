#include "hone/train/losses/similarity_correlations.h"

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

}  // namespace

Tensor paired_rows(const Tensor& first, const Tensor& second, const Tensor& labels) {
  auto a = first.detach().to(at::kCPU, at::kDouble), b = second.detach().to(at::kCPU, at::kDouble);
  return at::stack({labels.detach().to(at::kCPU, at::kDouble), at::cosine_similarity(a, b), -(a - b).norm(2, 1),
                    -(a - b).abs().sum(1), (a * b).sum(1)},
                   1);
}

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

}  // namespace hone::train
