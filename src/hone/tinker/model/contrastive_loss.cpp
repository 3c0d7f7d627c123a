#include "hone/tinker/model/contrastive_loss.h"

#include <fmt/format.h>

#include <functional>

#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {
namespace {

bool is_anchor(const Datum& datum) {
  const auto label = datum.inputs.find("labels");
  if (label == datum.inputs.end() || label->second.values.size() != 1)
    throw RequestError(
        "infonce needs one number as \"labels\" in loss_fn_inputs: 1 for an anchor, 0 for its positive and negatives");
  return label->second.values.front() != 0;
}

}  // namespace

ContrastiveLoss::ContrastiveLoss(const ForwardBackwardRequest& request) {
  const std::map<std::string, std::function<void(double)>> settings = {
      {"temperature", [&](double value) { config_.temperature = value; }},
      {"use_batch", [&](double value) { config_.use_batch = value != 0; }},
      {"mask_fake_negative", [&](double value) { config_.mask_fake_negatives = value != 0; }},
      {"fake_neg_margin", [&](double value) { config_.fake_margin = value; }},
      {"include_qq", [&](double value) { config_.include_queries = value != 0; }},
      {"include_dd", [&](double value) { config_.include_documents = value != 0; }}};
  for (const auto& [key, value] : request.config) {
    const auto setting = settings.find(key);
    if (setting == settings.end()) throw RequestError(fmt::format("loss_fn_config \"{}\" is not a setting of infonce", key));
    setting->second(value);
  }
  if (!(config_.temperature > 0)) throw RequestError(fmt::format("temperature is {}; expected more than 0", config_.temperature));
  for (size_t i = 0; i < request.data.size(); ++i)
    if (is_anchor(request.data[i])) groups_.starts.push_back(static_cast<int64_t>(i));
  if (groups_.starts.empty() || groups_.starts.front() != 0) throw RequestError("the first datum of infonce is not an anchor");
  groups_.starts.push_back(static_cast<int64_t>(request.data.size()));
  for (int64_t i = 0; i < groups_.count(); ++i)
    if (groups_.size(i) < 2) throw RequestError(fmt::format("anchor {} of infonce has no positive after it", i));
}

Tensor ContrastiveLoss::mean(const Tensor& embeddings_sd) const {
  return train::infonce_loss(embeddings_sd, groups_, config_) / groups_.count();
}

std::map<std::string, double> ContrastiveLoss::metrics(const Tensor& embeddings_sd) const {
  const std::vector<int64_t> starts(groups_.starts.begin(), groups_.starts.end() - 1);
  const auto anchors = at::tensor(starts, at::kLong).to(embeddings_sd.device());
  const auto states = embeddings_sd.detach();
  const auto similarities =
      at::matmul(states.index_select(0, anchors), states.index_select(0, anchors + 1).t()).to(at::kCPU, at::kDouble);
  const auto positives = similarities.diagonal();
  const auto count = static_cast<double>(groups_.count());
  std::map<std::string, double> values = {{"anchors:sum", count},
                                          {"pos_sim:mean", positives.mean().item<double>()},
                                          {"pos_sim_min:min", positives.min().item<double>()},
                                          {"pos_sim_max:max", positives.max().item<double>()}};
  if (count > 1) values["neg_sim:mean"] = (similarities.sum() - positives.sum()).item<double>() / (count * (count - 1));
  return values;
}

}  // namespace hone::tinker
