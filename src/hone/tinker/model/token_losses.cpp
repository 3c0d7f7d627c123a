#include "hone/tinker/model/token_losses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {
namespace {

struct KnownLoss {
  const char* name;
  std::vector<const char*> inputs;  // in addition to target_tokens
  std::vector<const char*> settings;
};

const std::vector<KnownLoss>& known_losses() {
  static const std::vector<KnownLoss> losses = {
      {"cross_entropy", {"weights"}, {}},
      {"importance_sampling", {"logprobs", "advantages"}, {}},
      {"ppo", {"logprobs", "advantages"}, {"clip_low_threshold", "clip_high_threshold"}},
      {"cispo", {"logprobs", "advantages"}, {"clip_low_threshold", "clip_high_threshold"}},
      {"dro", {"logprobs", "advantages"}, {"beta"}},
  };
  return losses;
}

const KnownLoss& known_loss(const std::string& name) {
  auto found = std::ranges::find_if(known_losses(), [&](const KnownLoss& loss) { return name == loss.name; });
  if (found != known_losses().end()) return *found;
  std::vector<std::string> names;
  for (const auto& loss : known_losses()) names.emplace_back(loss.name);
  throw RequestError(fmt::format("loss_fn is \"{}\"; expected one of {}", name, fmt::join(names, ", ")));
}

Tensor joined(const std::vector<const Datum*>& data, const char* name, at::Device device) {
  std::vector<float> values;
  for (const auto* datum : data)
    for (double value : datum->inputs.at(name).values) values.push_back(static_cast<float>(value));
  return at::tensor(values, at::kFloat).to(device);
}

}  // namespace

TokenLoss::TokenLoss(std::string name, const std::map<std::string, double>& config) : name_(std::move(name)) {
  const auto& loss = known_loss(name_);
  for (const auto& [key, value] : config)
    if (std::ranges::none_of(loss.settings, [&](const char* setting) { return key == setting; }))
      throw RequestError(fmt::format("loss_fn_config \"{}\" is not a setting of {}; expected {}", key, name_,
                                     loss.settings.empty() ? "none" : fmt::format("{}", fmt::join(loss.settings, ", "))));
  auto setting = [&](const char* key, double otherwise) {
    auto found = config.find(key);
    return found == config.end() ? otherwise : found->second;
  };
  const bool ppo = name_ == "ppo";
  low_ = setting("clip_low_threshold", ppo ? 0.8 : 0.0);
  high_ = setting("clip_high_threshold", ppo ? 1.2 : 4.0);
  beta_ = setting("beta", 0.05);
  if (!(low_ <= high_)) throw RequestError(fmt::format("clip_low_threshold {} is above clip_high_threshold {}", low_, high_));
}

void TokenLoss::check(const Datum& datum) const {
  auto named = [&](const char* name) -> const LossInput& {
    auto found = datum.inputs.find(name);
    if (found == datum.inputs.end()) throw RequestError(fmt::format("{} needs \"{}\" in loss_fn_inputs", name_, name));
    return found->second;
  };
  const auto& targets = named("target_tokens");
  const auto length = static_cast<int64_t>(datum.tokens.size());
  if (targets.rows != length)
    throw RequestError(fmt::format("target_tokens has {} positions; model_input has {}", targets.rows, length));
  for (const char* name : known_loss(name_).inputs) {
    const auto& input = named(name);
    if (input.rows != targets.rows || input.width != targets.width)
      throw RequestError(fmt::format("{} has shape {} x {}; target_tokens has {} x {}", name, input.rows, input.width,
                                     targets.rows, targets.width));
  }
}

TokenTensors TokenLoss::tensors(const std::vector<const Datum*>& data, at::Device device) const {
  TokenTensors tensors;
  if (name_ == "cross_entropy") {
    tensors.weights = joined(data, "weights", device);
    return tensors;
  }
  tensors.old_logps = joined(data, "logprobs", device);
  tensors.advantages = joined(data, "advantages", device);
  return tensors;
}

// A token without an advantage has a ratio of 1 and no gradient, however far apart its log-probabilities are: prompts are sent
// this way.
Tensor TokenLoss::sum(const Tensor& logps, const TokenTensors& tensors) const {
  if (name_ == "cross_entropy") return -(logps * tensors.weights).sum();
  const auto& advantages = tensors.advantages;
  auto nothing = at::zeros_like(advantages);
  if (name_ == "dro") {
    auto takes_part = (advantages != 0).logical_or(tensors.old_logps != 0);
    auto distance = at::where(takes_part, logps - tensors.old_logps, nothing);
    return -(logps * advantages - 0.5 * beta_ * distance.square()).sum();
  }
  auto ratio = at::where(advantages != 0, logps - tensors.old_logps, nothing).exp();
  if (name_ == "importance_sampling") return -(ratio * advantages).sum();
  auto clipped = ratio.clamp(low_, high_);
  if (name_ == "ppo") return -at::min(ratio * advantages, clipped * advantages).sum();
  return -(clipped.detach() * logps * advantages).sum();
}

}  // namespace hone::tinker
