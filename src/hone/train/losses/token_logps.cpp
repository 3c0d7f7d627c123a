#include "hone/train/losses/token_logps.h"

#include <algorithm>

#include "hone/model/decoder.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/ops/loss/vocabulary_shard.h"
#include "hone/parallel/sequence_parallel.h"

namespace hone::train {
namespace {

constexpr int64_t kLogitsBytes = int64_t{96} << 20;

// Calls look(rows, their logits in float32) for all positions with a target, a few at a time.
template <class Look>
void for_labelled_logits(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t, Look look) {
  auto labelled = (targets_t != ops::kIgnoredTarget).nonzero().squeeze(1);
  for (const auto& part : labelled.split(rows_at_once(model, kLogitsBytes)))
    look(part, model.logits(hidden_th.index_select(0, part)).to(at::kFloat));
}

}  // namespace

// Ranks that share the vocabulary gather all of its logits.
int64_t rows_at_once(const model::CausalLM& model, int64_t bytes) {
  const auto* region = model.decoder().region;
  const bool gathers = region && model.config().num_labels == 0;
  const int64_t columns = gathers ? region->vocabulary()->words : model.head().weight.size(0);
  return std::max<int64_t>(1, bytes / (columns * static_cast<int64_t>(sizeof(float))));
}

TokenScores token_scores(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t) {
  at::NoGradGuard no_grad;
  TokenScores scores{at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kFloat)),
                     at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kBool))};
  for_labelled_logits(model, hidden_th, targets_t, [&](const Tensor& part, const Tensor& logits) {
    auto targets = targets_t.index_select(0, part).unsqueeze(1);
    scores.logps_t.index_copy_(0, part, (logits.gather(1, targets) - logits.logsumexp(1, true)).squeeze(1));
    scores.hits_t.index_copy_(0, part, (logits.argmax(1, true) == targets).squeeze(1));
  });
  return scores;
}

Tensor top_entropies(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t) {
  constexpr int64_t kTopTokens = 20;
  at::NoGradGuard no_grad;
  auto entropies_t = at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kFloat));
  for_labelled_logits(model, hidden_th, targets_t, [&](const Tensor& part, const Tensor& logits) {
    auto logps = std::get<0>(logits.topk(std::min(kTopTokens, logits.size(1)), 1)).log_softmax(1);
    entropies_t.index_copy_(0, part, -(logps.exp() * logps).sum(1));
  });
  return entropies_t;
}

Tensor token_entropies(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t, double scale) {
  at::NoGradGuard no_grad;
  auto entropies_t = at::zeros({targets_t.size(0)}, hidden_th.options().dtype(at::kFloat));
  for_labelled_logits(model, hidden_th, targets_t, [&](const Tensor& part, const Tensor& logits) {
    auto logps = (logits * scale).log_softmax(1);
    entropies_t.index_copy_(0, part, -(logps.exp() * logps).sum(1));
  });
  return entropies_t;
}

Tensor token_logits(model::CausalLM& model, const Tensor& hidden_th, const Tensor& ids_tk) {
  if (!ids_tk.defined()) return model.logits(hidden_th).to(at::kFloat);
  TensorList parts;
  const int64_t rows = rows_at_once(model, kLogitsBytes), count = hidden_th.size(0);
  for (int64_t begin = 0; begin < count; begin += rows) {
    const int64_t length = std::min(rows, count - begin);
    parts.push_back(model.logits(hidden_th.narrow(0, begin, length)).gather(1, ids_tk.narrow(0, begin, length)).to(at::kFloat));
  }
  return at::cat(parts);
}

Tensor sequence_ids(const ops::CuSeqlens& segments, at::Device device) {
  auto numbers_t = at::empty({segments.total()}, at::kLong);
  auto* number = numbers_t.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < segments.count(); ++i) number = std::fill_n(number, segments.length(i), i);
  return numbers_t.to(device);
}

Tensor sum_by_sequence(const Tensor& values_t, const Tensor& numbers_t, int64_t count) {
  return at::zeros({count}, values_t.options()).index_add(0, numbers_t, values_t);
}

void count_once(LossSum& result, const parallel::SequenceParallel* sequence) {
  if (!sequence || sequence->is_first_rank()) return;
  result.sum = result.sum - result.sum.detach();
  for (auto& metric : result.metrics) metric.sum = at::zeros_like(metric.sum), metric.num_items = 0;
  result.eval_outputs = Tensor();
}

}  // namespace hone::train
