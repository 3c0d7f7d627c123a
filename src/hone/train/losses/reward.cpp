#include "hone/train/losses/reward.h"

#include <cmath>

#include "hone/base/file.h"
#include "hone/model/decoder.h"
#include "hone/model/pooling.h"
#include "hone/model/value_head.h"
#include "hone/train/distributed/sequence_split.h"
#include "hone/train/losses/token_logps.h"

namespace hone::train {
namespace {

// If sequences are split, the pairs may be followed by one segment of padding.
int64_t compared_pairs(const data::Batch& batch) { return batch.segments.count() / 2; }

double two_decimals(float value) { return std::nearbyint(static_cast<double>(value) * 100) / 100; }

}  // namespace

data::PayloadCollator RewardPayload::collator() {
  return [](const std::vector<const data::Sample*>& completions) {
    auto payload = std::make_shared<RewardPayload>();
    std::vector<float> margins;
    bool any = false;
    for (size_t i = 0; i < completions.size(); i += 2) {
      const auto& labels = completions[i]->sequence_labels;
      any |= !labels.empty();
      margins.push_back(labels.empty() ? 0 : labels.front());
    }
    if (any) payload->margins_p = at::tensor(margins);
    return payload;
  };
}

Tensor text_scores(model::CausalLM& model, const Tensor& states_sh) {
  return model.decoder().value_head ? model::values(model, states_sh)
                                    : model::classification_logits(model, states_sh).select(1, 0);
}

Tensor ranking_losses(const Tensor& chosen_p, const Tensor& rejected_p, const Tensor& margins_p) {
  auto ahead = chosen_p - rejected_p;
  return -at::log_sigmoid(margins_p.defined() ? ahead - margins_p : ahead);
}

double RewardLoss::num_items(const data::Batch& batch) const {
  return sequence_ && !sequence_->is_first_rank() ? 0 : static_cast<double>(compared_pairs(batch));
}

// The score of each text, [S]. If sequences are split, the last token is on one process, which shares its score with all.
Tensor RewardLoss::scores(const ForwardOutputs& outputs) const {
  if (!sequence_) return text_scores(outputs.model, outputs.last_token_states());
  const auto& segments = outputs.batch.segments;
  std::vector<int64_t> last;
  for (int64_t i = 0; i < 2 * compared_pairs(outputs.batch); ++i)
    last.push_back(segments.offsets[static_cast<size_t>(i) + 1] - 1);
  auto scores_t = whole_rows(text_scores(outputs.model, outputs.hidden_th), segments.total(), *sequence_);
  return scores_t.index_select(0, at::tensor(last, at::kLong).to(scores_t.device()));
}

LossSum RewardLoss::loss(const ForwardOutputs& outputs, const RewardPayload& payload) {
  auto& model = outputs.model;
  auto scores_p2 = scores(outputs).view({-1, 2});
  auto chosen = scores_p2.select(1, 0), rejected = scores_p2.select(1, 1);
  LossSum result{ranking_losses(chosen, rejected, payload.margins_p).sum(), {}, {}};
  const auto pairs = static_cast<double>(compared_pairs(outputs.batch));
  add_router_losses(result, outputs, router_, pairs, {sequence_, 2 * compared_pairs(outputs.batch)});
  auto right = (chosen > rejected).sum();
  if (!model.training()) result.eval_outputs = scores_p2.detach().to(at::kCPU);
  if (model.decoder().value_head) {
    if (!model.training()) result.metrics.push_back({"accuracy", right, pairs});  // LLaMA-Factory measures only in evaluation
    count_once(result, sequence_);
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
  count_once(result, sequence_);
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
