#include "hone/tuner/freeze.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "hone/base/error.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

void switch_by_prefix(const std::vector<ParameterSize>& parameters, const std::vector<std::string>& prefixes, const char* option,
                      bool on, std::vector<bool>& trained) {
  for (const auto& prefix : prefixes) {
    bool found = false;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name.starts_with(prefix)) trained[i] = on, found = true;
    if (!found)
      throw UserError(ExitCode::usage, fmt::format("`{}`: no parameter starts with \"{}\"", option, prefix),
                      fmt::format("names look like {}", parameters.front().name));
  }
}

void switch_by_regex(const std::vector<ParameterSize>& parameters, const std::string& expression, const char* option, bool on,
                     std::vector<bool>& trained) {
  if (expression.empty()) return;
  const std::regex regex = compile_regex(expression, option);
  bool found = false;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (std::regex_search(parameters[i].name, regex)) trained[i] = on, found = true;
  if (!found) throw UserError(ExitCode::usage, fmt::format("`{}`: \"{}\" matches no parameter", option, expression));
}

void freeze_bottom(const std::vector<ParameterSize>& parameters, double ratio, std::vector<bool>& trained) {
  if (ratio < 0 || ratio > 1)
    throw UserError(ExitCode::usage, fmt::format("`freeze_parameters_ratio` is {}, expected 0 to 1", ratio));
  int64_t total = 0, below = 0;
  for (const auto& parameter : parameters) total += parameter.elements;
  const auto budget = static_cast<int64_t>(static_cast<double>(total) * ratio);
  for (size_t i = 0; i < parameters.size() && (below += parameters[i].elements) <= budget; ++i) trained[i] = false;
}

// "model.layers.3.self_attn.q_proj.weight" to "self_attn"; empty outside the layers.
std::string module_in_layer(std::string_view name) {
  const int64_t index = layer_index(name);
  if (index < 0) return "";
  const std::string number = fmt::format(".{}.", index);
  const auto rest = name.substr(name.find(number) + number.size());
  return std::string(rest.substr(0, rest.find('.')));
}

// "model.embed_tokens.weight" to "embed_tokens"; empty inside the layers.
std::string module_outside_layers(std::string_view name) {
  if (layer_index(name) >= 0) return "";
  return std::string(last_part(name.substr(0, name.rfind('.'))));
}

void require_known(const std::vector<std::string>& wanted, const std::set<std::string>& known, const char* option) {
  for (const auto& name : wanted)
    if (name != "all" && !known.contains(name))
      throw UserError(ExitCode::usage, fmt::format("`{}`: there is no module \"{}\"", option, name),
                      fmt::format("choose from {}", fmt::join(known, ", ")));
}

int64_t count_layers(const std::vector<ParameterSize>& parameters) {
  int64_t last = -1;
  for (const auto& parameter : parameters) last = std::max(last, layer_index(parameter.name));
  return last + 1;
}

}  // namespace

std::vector<int64_t> trained_layers(int64_t layers, int64_t count, bool llama_pro) {
  std::vector<int64_t> chosen;
  if (llama_pro) {
    if (count < 1 || layers % count != 0)
      throw UserError(ExitCode::usage,
                      fmt::format("`use_llama_pro`: {} layers cannot be divided by `freeze_trainable_layers` {}", layers, count));
    for (int64_t stride = layers / count, i = stride - 1; i < layers; i += stride) chosen.push_back(i);
    return chosen;
  }
  const int64_t begin = count > 0 ? std::max<int64_t>(0, layers - count) : 0, end = count > 0 ? layers : std::min(layers, -count);
  for (int64_t i = begin; i < end; ++i) chosen.push_back(i);
  return chosen;
}

std::vector<bool> trained_by_prefix(const std::vector<ParameterSize>& parameters, const FreezeParameters& config) {
  std::vector<bool> trained(parameters.size(), true);
  freeze_bottom(parameters, config.freeze_ratio, trained);
  switch_by_prefix(parameters, config.freeze, "freeze_parameters", false, trained);
  switch_by_regex(parameters, config.freeze_regex, "freeze_parameters_regex", false, trained);
  switch_by_prefix(parameters, config.trainable, "trainable_parameters", true, trained);
  switch_by_regex(parameters, config.trainable_regex, "trainable_parameters_regex", true, trained);
  if (std::ranges::none_of(trained, [](bool on) { return on; }))
    throw UserError(ExitCode::usage, "every parameter is frozen", "name some in `trainable_parameters`");
  return trained;
}

std::vector<bool> trained_by_layer(const std::vector<ParameterSize>& parameters, const FreezeLayers& config, bool llama_pro) {
  std::set<std::string> inside, outside;
  for (const auto& parameter : parameters) {
    if (auto name = module_in_layer(parameter.name); !name.empty()) inside.insert(name);
    if (auto name = module_outside_layers(parameter.name); !name.empty()) outside.insert(name);
  }
  require_known(config.modules, inside, "freeze_trainable_modules");
  require_known(config.extra_modules, outside, "freeze_extra_modules");
  const auto layers = trained_layers(count_layers(parameters), config.trainable_layers, llama_pro);
  const bool all = std::ranges::count(config.modules, "all") > 0;
  std::vector<bool> trained;
  for (const auto& parameter : parameters) {
    const int64_t layer = layer_index(parameter.name);
    trained.push_back(layer < 0 ? std::ranges::count(config.extra_modules, module_outside_layers(parameter.name)) > 0
                                : std::ranges::count(layers, layer) > 0 &&
                                      (all || std::ranges::count(config.modules, module_in_layer(parameter.name)) > 0));
  }
  if (std::ranges::none_of(trained, [](bool on) { return on; })) throw UserError(ExitCode::usage, "every parameter is frozen");
  return trained;
}

std::vector<ParameterSize> parameter_sizes(model::CausalLM& model) {
  std::vector<ParameterSize> sizes;
  for (const auto& parameter : model.parameters()) sizes.push_back({parameter.name, parameter.value->numel()});
  return sizes;
}

}  // namespace hone::tuner
