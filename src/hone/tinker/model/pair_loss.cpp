#include "hone/tinker/model/pair_loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {
namespace {

constexpr const char* kReference = "ref_logps";

const LossInput& input_of(const Datum& datum, const char* name) {
  const auto found = datum.inputs.find(name);
  if (found == datum.inputs.end()) throw RequestError(fmt::format("DPO needs \"{}\" in loss_fn_inputs of every datum", name));
  return found->second;
}

// A position takes part if its weight is not 0.
double tokens_of(const Datum& datum) {
  const auto& weights = input_of(datum, "weights").values;
  return static_cast<double>(std::ranges::count_if(weights, [](double weight) { return weight != 0; }));
}

struct PairTensors {
  Tensor mask, reference, datum;  // for each position: whether it takes part, its reference, the number of its datum
};

PairTensors tensors_of(const std::vector<const Datum*>& data, at::Device device) {
  std::vector<float> mask, reference;
  std::vector<int64_t> datum;
  for (size_t i = 0; i < data.size(); ++i) {
    for (double weight : data[i]->inputs.at("weights").values) mask.push_back(weight != 0 ? 1 : 0);
    for (double value : data[i]->inputs.at(kReference).values) reference.push_back(static_cast<float>(value));
    datum.resize(mask.size(), static_cast<int64_t>(i));
  }
  const auto floats = [&](const std::vector<float>& values) { return at::tensor(values, at::kFloat).to(device); };
  return {floats(mask), floats(reference), at::tensor(datum, at::kLong).to(device)};
}

}  // namespace

void PairMetrics::add(const PairMetrics& other) {
  for (const auto field : {&PairMetrics::chosen_logps, &PairMetrics::rejected_logps, &PairMetrics::chosen_rewards,
                           &PairMetrics::rejected_rewards, &PairMetrics::correct})
    this->*field += other.*field;
  pairs += other.pairs;
}

std::map<std::string, double> PairMetrics::means(const std::string& suffix) const {
  if (pairs == 0) return {};
  const auto mean = [&](double sum) { return sum / static_cast<double>(pairs); };
  return {{"logps/chosen" + suffix, mean(chosen_logps)},
          {"logps/rejected" + suffix, mean(rejected_logps)},
          {"rewards/chosen" + suffix, mean(chosen_rewards)},
          {"rewards/rejected" + suffix, mean(rejected_rewards)},
          {"rewards/margins" + suffix, mean(chosen_rewards - rejected_rewards)},
          {"rewards/accuracies" + suffix, mean(correct)}};
}

bool PairLoss::is_requested(const ForwardBackwardRequest& request) {
  return request.loss_fn == "importance_sampling" &&
         std::ranges::any_of(request.data, [](const Datum& datum) { return datum.inputs.contains(kReference); });
}

PairLoss::PairLoss(const ForwardBackwardRequest& request) {
  if (request.data.size() % 2 != 0)
    throw RequestError(fmt::format("{} data with ref_logps; expected pairs: a chosen answer, then the rejected one, and so on",
                                   request.data.size()));
  for (const auto& [key, value] : request.config)
    if (key != "dpo_beta" && key != "dpo_sft_weight")
      throw RequestError(fmt::format("loss_fn_config \"{}\" is not a setting of DPO; expected dpo_beta, dpo_sft_weight", key));
  const auto setting = [&](const char* key, double otherwise) {
    const auto found = request.config.find(key);
    return found == request.config.end() ? otherwise : found->second;
  };
  beta_ = setting("dpo_beta", 0.1);
  sft_weight_ = setting("dpo_sft_weight", 0);
  if (!(beta_ > 0)) throw RequestError(fmt::format("dpo_beta is {}; expected more than 0", beta_));
  pairs_ = static_cast<double>(request.data.size()) / 2;
  for (size_t i = 0; i < request.data.size(); ++i) {
    const auto &reference = input_of(request.data[i], kReference), &targets = input_of(request.data[i], "target_tokens");
    if (reference.rows != targets.rows || reference.width != targets.width)
      throw RequestError(fmt::format("ref_logps has shape {} x {}; target_tokens has {} x {}", reference.rows, reference.width,
                                     targets.rows, targets.width));
    if (i % 2 == 0) chosen_tokens_ += tokens_of(request.data[i]);
  }
}

Tensor PairLoss::sum(const std::vector<const Datum*>& data, const Tensor& logps, PairMetrics& metrics) const {
  const auto given = tensors_of(data, logps.device());
  const auto of_data = [&](const Tensor& values) {
    return at::zeros({static_cast<int64_t>(data.size())}, values.options()).index_add(0, given.datum, values * given.mask);
  };
  const auto half = [](const Tensor& values, int64_t which) { return values.slice(0, which, std::nullopt, 2); };
  const auto sums = of_data(logps), rewards = beta_ * (sums - of_data(given.reference));
  const auto margins = half(rewards, 0) - half(rewards, 1);
  auto loss = -at::log_sigmoid(margins).sum() / pairs_;
  if (sft_weight_ != 0) loss = loss - sft_weight_ * half(sums, 0).sum() / std::max(1.0, chosen_tokens_);
  const auto total = [](const Tensor& values) { return values.detach().sum().item<double>(); };
  metrics.add({.chosen_logps = total(half(sums, 0)),
               .rejected_logps = total(half(sums, 1)),
               .chosen_rewards = total(half(rewards, 0)),
               .rejected_rewards = total(half(rewards, 1)),
               .correct = total((margins > 0).to(at::kFloat)),
               .pairs = static_cast<int64_t>(data.size()) / 2});
  return loss;
}

}  // namespace hone::tinker
