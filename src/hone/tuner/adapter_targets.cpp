#include "hone/tuner/adapter_targets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "hone/base/error.h"
#include "hone/tuner/freeze.h"
#include "hone/tuner/lora_ga.h"
#include "hone/tuner/megatron_layers.h"
#include "hone/tuner/methods/attach.h"
#include "hone/tuner/single_experts.h"
#include "hone/tuner/targets.h"
#include "hone/tuner/vision_parts.h"

namespace hone::tuner {
namespace {

// all-linear and all: every linear layer except the head, by the last part of its path.
void add_all_linear(model::CausalLM& model, std::set<std::string>& names) {
  for (const model::Linear* linear : model.tree().linears())
    if (linear->name != model.head().name) names.emplace(last_part(linear->name));
}

std::vector<std::string> linear_paths(model::CausalLM& model) {
  std::vector<std::string> paths;
  for (const model::Linear* linear : model.tree().linears()) paths.push_back(linear->name);
  return paths;
}

std::vector<std::string> expanded_targets(model::CausalLM& model, const std::vector<std::string>& targets) {
  std::set<std::string> names;
  for (const auto& target : targets) {
    if (target == "all-linear" || target == "all")
      add_all_linear(model, names);
    else if (target == "all-embedding")
      names.emplace(last_part(model.embedding().name));
    else if (const auto layers = megatron_layers(model, target))
      names.insert(layers->modules.begin(), layers->modules.end());
    else
      names.insert(target);
  }
  return {names.begin(), names.end()};
}

// "all-experts" and "all-routers" are the model's expert and router parameters, none in a dense model.
std::vector<std::string> expanded_parameters(model::CausalLM& model, const std::vector<std::string>& targets) {
  std::set<std::string> names;
  for (const auto& target : targets) {
    const bool experts = target == kAllExperts;
    if (!experts && target != kAllRouters) {
      names.insert(target);
      continue;
    }
    for (const auto& slot : model.tree().slots()) {
      if (slot.kind != (experts ? model::SlotKind::experts : model::SlotKind::router)) continue;
      const auto name = experts ? slot.path : slot.path + ".weight";  // "…layers.0.mlp.experts.down_proj", "…mlp.gate.weight"
      names.insert(parameter_target(name));
    }
  }
  return {names.begin(), names.end()};
}

// Experts selected by Megatron's module names.
std::vector<std::string> expert_targets(model::CausalLM& model, const LoraConfig& lora) {
  std::set<std::string> names;
  if (lora.target_regex.empty())
    for (const auto& target : lora.targets)
      if (const auto layers = megatron_layers(model, target)) names.insert(layers->parameters.begin(), layers->parameters.end());
  return {names.begin(), names.end()};
}

bool means_all_linear(const std::vector<std::string>& targets) {
  return targets.size() == 1 && (targets[0] == "all-linear" || targets[0] == "all");
}

// The shortest end of a module's path that names nothing outside it: "visual" of "model.visual", and all of
// "visual_tokenizer.head" beside "llm.lm_head", since modules to save are compared by the end of their path as in PEFT.
std::string distinct_end(model::CausalLM& model, std::string_view path) {
  std::vector<std::string> others{model.head().name + ".weight"};  // also where it is tied
  for (const auto& parameter : model.parameters())
    if (!parameter.name.starts_with(std::string(path) + ".")) others.push_back(parameter.name);
  for (size_t dot = path.rfind('.'); dot != path.npos; dot = dot == 0 ? path.npos : path.rfind('.', dot - 1)) {
    const std::string end(path.substr(dot + 1));
    if (std::ranges::none_of(others, [&](const std::string& name) { return saves_parameter({end}, name); })) return end;
  }
  return std::string(path);
}

// The modules of towers and aligners; of those inside one another, the outer one.
std::vector<std::string> tower_modules(model::CausalLM& model) {
  const auto& config = model.config();
  if (!config.vision && !config.audio)
    throw UserError(ExitCode::usage, "`tuner_type` lora_llm or `modules_to_save` all-towers: the model has no tower",
                    "use `tuner_type` lora: it is a text-only model");
  std::vector<std::string> modules;
  if (config.audio) modules.push_back(distinct_end(model, config.audio->tower));
  if (!config.vision) return modules;
  const auto& names = config.vision->names;
  for (const auto& path : {names.tower, names.merger, names.deepstack, names.vocabulary})
    if (!path.empty() && !path.starts_with(names.tower + ".")) modules.push_back(distinct_end(model, path));
  return modules;
}

// Methods that follow a block's MLP change the language model alone.
std::vector<LayerShape> decoder_shapes(model::CausalLM& model) {
  auto shapes = layer_shapes(model);
  std::erase_if(shapes, [&](const LayerShape& layer) { return part_of(layer.path, model.config()) != ModelPart::llm; });
  return shapes;
}

void complete_config(model::CausalLM& model, const TunerConfig& config, io::AdapterConfig& made) {
  const auto& method = method_of_type(made.peft_type);
  if (!method.complete) return;
  const bool sees = model.config().vision || model.config().audio;
  if (method.owner && sees && config.frozen_parts.llm)
    throw UserError(ExitCode::usage, fmt::format("{} changes the language model, which freeze_llm freezes", method.name),
                    "leave freeze_llm out, or use `tuner_type` lora");
  method.complete(made, method.owner ? decoder_shapes(model) : layer_shapes(model), config.steps);
}

}  // namespace

std::vector<std::string> saved_modules(model::CausalLM& model, const TunerConfig& config) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (!std::ranges::count(names, name)) names.emplace_back(name);
  };
  for (const auto& module : config.lora.modules_to_save) {
    if (module == "all-embedding") {
      add(last_part(model.embedding().name));
    } else if (module == "all-towers") {
      for (const auto& name : tower_modules(model)) add(name);
    } else if (module == "all-norm") {
      for (const auto& parameter : model.parameters())
        if (parameter.name.find("norm") != std::string::npos)
          add(last_part(std::string_view(parameter.name).substr(0, parameter.name.rfind('.'))));
    } else if (const auto layers = megatron_layers(model, module); layers && layers->parameters.empty()) {
      for (const auto& name : layers->modules) add(name);
    } else {
      add(module);
    }
  }
  return names;
}

io::AdapterConfig adapter_config(model::CausalLM& model, const TunerConfig& config) {
  const LoraConfig& lora = config.lora;
  io::AdapterConfig made;
  made.base_model = config.base_model;
  made.task_type = config.peft_task;
  made.peft_type = config.method;
  made.extra_fields = config.method_fields;
  made.rank = lora.rank;
  made.alpha = lora.alpha;
  made.dropout = lora.dropout;
  made.bias = config.method == "LORA" || config.method == "ADALORA" ? lora.bias : "none";
  std::vector<int64_t> layers;  // that train; empty: all of them
  if (config.use_llama_pro) layers = trained_layers(model.config().layers, config.layers.trainable_layers, true);
  if (model.config().vision && lora.target_regex.empty() && means_all_linear(lora.targets))
    made.targets.regex = linear_targets(model, config.frozen_parts, layers);
  else if (lora.target_regex.empty())
    made.targets.names = expanded_targets(model, lora.targets);
  else
    made.targets.regex = lora.target_regex;
  auto parameters = lora.target_parameters;
  const auto experts = expert_targets(model, lora);
  parameters.insert(parameters.end(), experts.begin(), experts.end());
  if (made.is_lora()) made.target_parameters = expanded_parameters(model, parameters);
  const bool by_kind = !experts.empty() || std::ranges::count(lora.target_parameters, kAllExperts) > 0;
  if (by_kind && !made.target_parameters.empty()) made.dropout = 0;
  made.excluded.names = lora.excluded;
  made.modules_to_save = saved_modules(model, config);
  made.rslora = lora.rslora;
  made.dora = lora.dora;
  made.init = !made.is_lora() ? "true" : lora.init == "lora-ga" ? kLoraGa : lora.init;
  made.loftq_bits = lora.loftq_bits;
  made.loftq_iterations = lora.loftq_iterations;
  made.rank_pattern = lora.rank_pattern;
  made.alpha_pattern = lora.alpha_pattern;
  if (made.is_lora()) target_stacked_experts(made, linear_paths(model), model.config().experts);
  if (made.targets.regex.empty()) made.layers_to_transform = layers;  // PEFT takes them with names alone
  if (!made.is_lora()) complete_config(model, config, made);
  return made;
}

void require_matches(const io::AdapterConfig& config, const std::vector<model::AdapterSlot>& slots, size_t adapted) {
  std::set<std::string> names;
  for (const auto& site : slots)
    if (site.kind == model::SlotKind::linear || site.kind == model::SlotKind::embedding)
      names.insert(std::string(last_part(site.path)));
  const std::string hint = fmt::format("modules here: {}", fmt::join(names, ", "));
  for (const auto& name : config.targets.names)
    if (std::ranges::none_of(slots, [&](const model::AdapterSlot& site) { return ends_in(site.path, name); }))
      throw UserError(ExitCode::usage, fmt::format("`target_modules`: no module ends in \"{}\"", name), hint);
  std::vector<std::string> parameters;
  for (const auto& site : slots) parameters.push_back(site.kind == model::SlotKind::experts ? site.path : site.path + ".weight");
  for (const auto& name : config.target_parameters)
    if (std::ranges::none_of(parameters, [&](const std::string& parameter) { return ends_in(parameter, name); }))
      throw UserError(ExitCode::usage, fmt::format("`target_parameters`: no parameter ends in \"{}\"", name),
                      "models with experts have mlp.experts.gate_up_proj, mlp.experts.down_proj and mlp.gate.weight");
  if (adapted == 0) throw UserError(ExitCode::usage, "the LoRA targets match no module", hint);
}

void require_targets(model::CausalLM& model, const io::AdapterConfig& config) {
  const TargetMatcher matcher(config);
  const auto all = model.tree().slots();
  const auto adapted = std::ranges::count_if(all, [&](const model::AdapterSlot& site) { return matcher.slot(site); });
  if (config.is_lora()) require_matches(config, all, static_cast<size_t>(adapted));
  for (const auto& name : config.modules_to_save) {
    if (name == "classifier" || name == "score") continue;  // PEFT lists both for any classifier
    const auto is_saved = [&](const std::string& parameter) { return saves_parameter({name}, parameter); };
    if (is_saved(model.head().name + ".weight")) continue;  // no parameter of its own where it is tied
    if (std::ranges::any_of(model.parameters(), is_saved, &model::NamedParameter::name)) continue;
    std::set<std::string> names;
    for (const auto& parameter : model.parameters())
      names.emplace(last_part(parameter.name.substr(0, parameter.name.rfind('.'))));
    throw UserError(ExitCode::usage, fmt::format("`modules_to_save`: no module ends in \"{}\"", name),
                    fmt::format("modules here: {}, {}", fmt::join(names, ", "), last_part(model.head().name)));
  }
}

int64_t lora_elements(model::CausalLM& model, const io::AdapterConfig& config) {
  const TargetMatcher matcher(config);
  int64_t elements = 0;
  for (const auto& site : model.tree().slots()) {
    if (!matcher.slot(site)) continue;
    const auto rank = matcher.rank(site.path);
    const auto sizes = site.weight->sizes();
    elements += site.kind == model::SlotKind::experts ? rank * sizes[0] * (sizes[1] + sizes[2]) : rank * (sizes[0] + sizes[1]);
    if (site.kind == model::SlotKind::linear && config.dora) elements += sizes[0];  // magnitudes
  }
  const auto& head = model.head().name;
  if (!model.config().tie_word_embeddings || !matcher(head)) return elements;
  const auto words = model.embedding().weight.sizes();  // a tied head gets its own weight and pair
  return elements + matcher.rank(head) * (words[0] + words[1]) + (config.dora ? words[0] : 0);
}

std::vector<model::Linear*> adapted_linears(model::CausalLM& model, const io::AdapterConfig& config) {
  const TargetMatcher matcher(config);
  auto linears = model.tree().linears();
  std::erase_if(linears, [&](const model::Linear* linear) { return !matcher(linear->name); });
  return linears;
}

}  // namespace hone::tuner
