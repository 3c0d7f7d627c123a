#include "hone/optim/param_groups.h"

#include <algorithm>
#include <map>
#include <span>

#include "hone/base/strings/lower_case.h"

namespace hone::optim {
namespace {

// `word` as one path component, or as its end if `suffix` is set ("q_norm" ends in "_norm").
bool has_component(std::string_view path, std::string_view word, bool suffix) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const auto part = path.substr(begin, end - begin);
    if (suffix ? part.ends_with(word) : part == word) return true;
    begin = end + 1;
  }
  return false;
}

void add(ParameterGroup& group, const std::pair<std::string, Tensor>& parameter) {
  group.names.push_back(parameter.first);
  group.parameters.push_back(parameter.second);
}

// One dtype per group, as fused kernels require; empty groups are removed.
std::vector<ParameterGroup> by_dtype(const std::vector<ParameterGroup>& groups) {
  std::vector<ParameterGroup> split;
  for (const auto& group : groups) {
    std::map<at::ScalarType, ParameterGroup> parts;
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      auto& part =
          parts.try_emplace(group.parameters[i].scalar_type(), ParameterGroup{{}, {}, group.lr_scale, group.weight_decay})
              .first->second;
      add(part, {group.names[i], group.parameters[i]});
    }
    for (auto& [dtype, part] : parts) split.push_back(std::move(part));
  }
  return split;
}

std::vector<ParameterGroup> loraplus_groups(const NamedTensors& trainable, const ParamGroupConfig& config) {
  const double ratio = *config.loraplus_ratio, embedding = config.loraplus_embedding_rate / config.learning_rate;
  std::vector<ParameterGroup> groups(4);
  for (auto& group : groups) group.weight_decay = config.weight_decay;
  groups[1].lr_scale = groups[2].lr_scale = ratio;
  groups[2].weight_decay = 0;
  groups[3].lr_scale = embedding;
  for (const auto& parameter : trainable) {
    const std::string& name = parameter.first;
    if (name.find("lora_embedding_B") != std::string::npos)
      add(groups[3], parameter);
    else if (name.find("lora_B") != std::string::npos || parameter.second.dim() == 1)
      add(groups[takes_weight_decay(name) ? 1 : 2], parameter);
    else
      add(groups[0], parameter);
  }
  return by_dtype(groups);
}

// Qwen's vision and Omni models, InternVL in both formats, Gemma 3 and Ovis.
constexpr std::string_view kMergers[] = {
    "visual.merger.",   "visual.deepstack_merger_list.", "visual.merger_list.", "multi_modal_projector.", "mlp1.",
    "audio_tower.proj", "visual_tokenizer.head."};
constexpr std::string_view kTowers[] = {"visual.", "vision_tower.", "vision_model.", "audio_tower.", "visual_tokenizer.", "vte."};

bool has_part(const std::string& name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != name.npos; });
}

// ms-swift's multimodal optimizer: separate learning rates for language model, vision tower and merger.
std::vector<ParameterGroup> vision_groups(const NamedTensors& trainable, const ParamGroupConfig& config) {
  std::vector<ParameterGroup> groups(6);
  const double rates[] = {config.learning_rate, config.vit_rate.value_or(config.learning_rate),
                          config.aligner_rate.value_or(config.learning_rate)};
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].lr_scale = rates[i / 2] / config.learning_rate;
    groups[i].weight_decay = i % 2 == 0 ? config.weight_decay : 0;
  }
  for (const auto& parameter : trainable) {
    const auto& name = parameter.first;
    const size_t part = has_part(name, kMergers) ? 2 : has_part(name, kTowers) ? 1 : 0;
    add(groups[2 * part + (takes_weight_decay(name) ? 0 : 1)], parameter);
  }
  return by_dtype(groups);
}

}  // namespace

bool takes_weight_decay(std::string_view parameter_name) {
  const auto name = lower_case(parameter_name);
  for (const char* word : {"bias", "layernorm", "rmsnorm"})
    if (name.find(word) != std::string::npos) return false;
  return !has_component(name, "norm", false) && !has_component(name, "_norm", true);
}

std::vector<ParameterGroup> make_param_groups(const NamedTensors& trainable, const ParamGroupConfig& config) {
  if (config.loraplus_ratio) return loraplus_groups(trainable, config);
  if (config.vit_rate || config.aligner_rate) return vision_groups(trainable, config);
  std::vector<ParameterGroup> groups(2);
  groups[0].weight_decay = config.weight_decay;
  for (const auto& parameter : trainable) add(groups[takes_weight_decay(parameter.first) ? 0 : 1], parameter);
  return by_dtype(groups);
}

}  // namespace hone::optim
