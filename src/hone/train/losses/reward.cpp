#include "hone/train/losses/reward.h"

#include <cmath>

#include "hone/base/file.h"
#include "hone/model/pooling.h"
#include "hone/model/value_head.h"
#include "hone/train/methods/forward_input.h"

namespace hone::train {
namespace {

// By how much a chosen answer should be ahead, where rows say so; undefined where none does.
Tensor margins_of(const data::Batch& batch, at::Device device) {
  std::vector<float> margins;
  bool any = false;
  for (size_t i = 0; i < batch.sequence_labels.size(); i += 2) {
    any |= !batch.sequence_labels[i].empty();
    margins.push_back(batch.sequence_labels[i].empty() ? 0 : batch.sequence_labels[i].front());
  }
  return any ? at::tensor(margins).to(device) : Tensor();
}

double two_decimals(float value) { return std::nearbyint(static_cast<double>(value) * 100) / 100; }

}  // namespace

Tensor text_scores(model::CausalLM& model, const model::ForwardInput& input) {
  auto states_sh = model::pool_last_token(model, input);
  return model.value_head() ? model::values(model, states_sh) : model::classification_logits(model, states_sh).select(1, 0);
}

Tensor ranking_losses(const Tensor& chosen_p, const Tensor& rejected_p, const Tensor& margins_p) {
  auto ahead = chosen_p - rejected_p;
  return -at::log_sigmoid(margins_p.defined() ? ahead - margins_p : ahead);
}

LossSum RewardLoss::loss(model::CausalLM& model, const data::Batch& batch) {
  auto scores_p2 = text_scores(model, forward_input(batch)).view({-1, 2});
  auto chosen = scores_p2.select(1, 0), rejected = scores_p2.select(1, 1);
  LossSum result{ranking_losses(chosen, rejected, margins_of(batch, scores_p2.device())).sum(), {}, {}};
  const double pairs = num_items(batch);
  auto right = (chosen > rejected).sum();
  if (!model.training()) result.eval_outputs = scores_p2.detach().to(at::kCPU);
  if (model.value_head()) {
    if (!model.training()) result.metrics.push_back({"accuracy", right, pairs});  // LLaMA-Factory measures in evaluation only
    return result;
  }
  if (centering_) {
    auto centred = *centering_ * (chosen + rejected).square().sum();
    result.sum = result.sum + centred;
    result.metrics.push_back({"center_rewards_loss", centred.detach(), pairs});
  }
  auto sum_of = [](const Tensor& values) { return values.detach().sum(); };
  result.metrics.insert(result.metrics.end(), {{"rewards/chosen", sum_of(chosen), pairs},
                                               {"rewards/rejected", sum_of(rejected), pairs},
                                               {"rewards/accuracies", right, pairs},
                                               {"rewards/margins", sum_of(chosen - rejected), pairs}});
  return result;
}

void write_pair_scores(const std::string& path, const std::vector<Tensor>& kept) {
  std::string lines;
  for (const auto& scores_p2 : kept)
    for (int64_t pair = 0; pair < scores_p2.size(0); ++pair) {
      Json line{{"chosen", two_decimals(scores_p2[pair][0].item<float>())},
                {"rejected", two_decimals(scores_p2[pair][1].item<float>())}};
      lines += line.dump() + '\n';
    }
  write_file_atomically(path, lines);
}

}  // namespace hone::train
