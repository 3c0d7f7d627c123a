#include "hone/train/losses/reward.h"

#include <cmath>

#include "hone/base/file.h"
#include "hone/model/pooling.h"
#include "hone/model/value_head.h"

namespace hone::train {
namespace {

double two_decimals(float value) { return std::nearbyint(static_cast<double>(value) * 100) / 100; }

}  // namespace

data::PayloadCollator RewardPayload::collator() {
  return [](const std::vector<const data::Sample*>& answers) {
    auto payload = std::make_shared<RewardPayload>();
    std::vector<float> margins;
    bool any = false;
    for (size_t i = 0; i < answers.size(); i += 2) {
      const auto& labels = answers[i]->sequence_labels;
      any |= !labels.empty();
      margins.push_back(labels.empty() ? 0 : labels.front());
    }
    if (any) payload->margins_p = at::tensor(margins);
    return payload;
  };
}

Tensor text_scores(model::CausalLM& model, const Tensor& states_sh) {
  return model.value_head() ? model::values(model, states_sh) : model::classification_logits(model, states_sh).select(1, 0);
}

Tensor ranking_losses(const Tensor& chosen_p, const Tensor& rejected_p, const Tensor& margins_p) {
  auto ahead = chosen_p - rejected_p;
  return -at::log_sigmoid(margins_p.defined() ? ahead - margins_p : ahead);
}

LossSum RewardLoss::loss(const ForwardOutputs& outputs, const RewardPayload& payload) {
  auto& model = outputs.model;
  auto scores_p2 = text_scores(model, outputs.last_token_states()).view({-1, 2});
  auto chosen = scores_p2.select(1, 0), rejected = scores_p2.select(1, 1);
  LossSum result{ranking_losses(chosen, rejected, payload.margins_p).sum(), {}, {}};
  const double pairs = num_items(outputs.batch);
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
