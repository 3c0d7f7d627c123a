#include "hone/tuner/tuner.h"

#include <algorithm>

#include "hone/base/config_error.h"
#include "hone/base/log.h"
#include "hone/device/placeholder.h"
#include "hone/io/value_head.h"
#include "hone/tuner/adapter_files.h"
#include "hone/tuner/adapter_targets.h"
#include "hone/tuner/freeze.h"
#include "hone/tuner/lora_ga.h"
#include "hone/tuner/methods/attach.h"
#include "hone/tuner/targets.h"
#include "hone/tuner/vision_parts.h"

namespace hone::tuner {
namespace {

// Copies to new memory in the requested dtype. set_data keeps the tensor's identity, so that a tied head follows its embedding.
void make_trainable(Tensor& weight, std::optional<at::ScalarType> dtype, bool own) {
  const auto type = dtype.value_or(weight.scalar_type());
  weight.set_data(device::is_placeholder(weight)
                      ? device::placeholder(weight.sizes(), weight.options().dtype(type))
                      : weight.detach().to(weight.device(), type, /*non_blocking=*/false, /*copy=*/own));
  weight.requires_grad_(true);
}

void train_chosen(model::CausalLM& model, const std::vector<bool>& trained, const TunerConfig& config, Tuned& tuned) {
  const auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!trained[i] && !io::is_of_value_head(parameters[i].name)) continue;
    make_trainable(*parameters[i].value, config.trainable_dtype, !config.share_base_storage);
    tuned.trainable.emplace_back(parameters[i].name, *parameters[i].value);
  }
}

// Only the language model has numbered layers: a vision tower is trained as a whole or not at all.
std::vector<bool> trained_layers_of(model::CausalLM& model, const std::vector<ParameterSize>& sizes, const TunerConfig& config) {
  const auto& vision = model.config().vision;
  std::vector<ParameterSize> text;
  for (const auto& size : sizes)
    if (part_of(size.name, model.config()) == ModelPart::llm) text.push_back(size);
  const auto chosen = trained_by_layer(text, config.layers, config.use_llama_pro);
  std::vector<bool> trained;
  size_t next = 0;
  for (const auto& size : sizes) {
    const auto part = part_of(size.name, model.config());
    trained.push_back(part == ModelPart::llm ? chosen[next++] && !(vision && config.frozen_parts.llm)
                                             : !is_frozen(part, config.frozen_parts));
  }
  return trained;
}

// Frozen parts do not train, whatever else selected them.
std::vector<bool> without_frozen_parts(std::vector<bool> trained, const std::vector<ParameterSize>& sizes,
                                       const model::DecoderConfig& model, const TunerConfig& config) {
  if (!model.vision) return trained;
  const auto& named = config.parameters.trainable;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool asked = std::ranges::any_of(named, [&](const std::string& prefix) { return sizes[i].name.starts_with(prefix); });
    if (!asked && is_frozen(part_of(sizes[i].name, model), config.frozen_parts)) trained[i] = false;
  }
  if (std::ranges::none_of(trained, [](bool on) { return on; }))
    throw UserError(ExitCode::usage, "freeze_llm, freeze_vit and freeze_aligner leave nothing to train",
                    "set one of them to false");
  return trained;
}

// Input of a gradient-based initialization: gradients of this run's first step, or the checkpoint that stores them.
void find_start(model::CausalLM& model, const io::AdapterConfig& adapter, const TunerConfig& config,
                const GradientSource& gradients, AttachOptions& options) {
  if (adapter.init != kLoraGa) return;
  options.gradient_start = config.lora.gradient_start;
  options.started_in = config.resumed;
  if (config.resumed) return;
  if (!gradients)
    throw UserError(ExitCode::usage,
                    "init_weights lora-ga starts from gradients of training data, and this command has no training data",
                    "train with it, or use pissa");
  options.gradients = gradients(model, adapted_linears(model, adapter));
}

AttachedAdapter start_adapter(model::CausalLM& model, const TunerConfig& config, const GradientSource& gradients) {
  AttachOptions options{"default", config.lora.dtype.value_or(at::kFloat), config.seed};
  for (size_t i = 0; i < config.adapters.size(); ++i) {
    auto loaded = load_adapter(model, config.adapters[i], options);
    if (i + 1 == config.adapters.size() && !config.create_new_adapter) {
      if (loaded.config.is_lora())
        log::info("continuing adapter {} (rank {}, alpha {})", config.adapters[i].string(), loaded.config.rank,
                  loaded.config.alpha);
      else
        log::info("continuing adapter {} ({})", config.adapters[i].string(), loaded.config.peft_type);
      return loaded;
    }
    merge_adapter(model, loaded);
    log::info("merged adapter {} into the base", config.adapters[i].string());
  }
  const auto adapter = adapter_config(model, config);
  if (adapter.dropout != config.lora.dropout)
    log::info("`lora_dropout` is 0 instead of {}: updates of experts have no input to drop", config.lora.dropout);
  find_start(model, adapter, config, gradients, options);
  return attach_adapter(model, adapter, options);
}

void train_adapter(model::CausalLM& model, const TunerConfig& config, const GradientSource& gradients, Tuned& tuned) {
  tuned.adapter = start_adapter(model, config, gradients);
  for (const auto& tensor : adapter_tensors(model, *tuned.adapter)) {
    tensor.value->requires_grad_(true);
    tuned.trainable.emplace_back(tensor.name, *tensor.value);
  }
  for (const auto& parameter : model.parameters()) {
    if (!io::is_of_value_head(parameter.name)) continue;
    make_trainable(*parameter.value, std::nullopt, !config.share_base_storage);
    tuned.trainable.emplace_back(parameter.name, *parameter.value);
  }
}

std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

}  // namespace

std::string Tuned::summary() const {
  return fmt::format("trainable parameters: {} of {} ({:.4f}%)", with_commas(trainable_count), with_commas(total_count),
                     100.0 * static_cast<double>(trainable_count) / static_cast<double>(std::max<int64_t>(1, total_count)));
}

void validate(const TunerConfig& config) {
  compile_regex(config.lora.target_regex, "`target_regex`");
  if (config.adapters.empty() || config.kind == TunerType::adapter) return;
  throw ConfigError(fmt::format("`adapters` is given with `kind` {}", config.kind == TunerType::full ? "full" : "freeze"),
                    "adapters are continued by adapter methods such as lora; merge them first for full tuning");
}

void require_modules(model::CausalLM& model, const TunerConfig& config) {
  const auto sizes = parameter_sizes(model);
  if (config.kind == TunerType::full) {
    trained_by_prefix(sizes, config.parameters);
  } else if (config.kind == TunerType::freeze) {
    trained_layers_of(model, sizes, config);
  } else if (config.adapters.empty() || config.create_new_adapter) {
    io::AdapterConfig named;
    named.peft_type = config.method;
    named.modules_to_save = saved_modules(model, config);
    // Only the targets of other methods are checked: their settings need the number of steps.
    require_targets(model, named.is_lora() ? adapter_config(model, config) : named);
  }
}

Tuned apply_tuner(model::CausalLM& model, const TunerConfig& config, const GradientSource& gradients) {
  validate(config);
  Tuned tuned;
  for (const auto& parameter : model.parameters()) parameter.value->requires_grad_(false);
  const auto sizes = parameter_sizes(model);
  switch (config.kind) {
    case TunerType::full:
      train_chosen(model, without_frozen_parts(trained_by_prefix(sizes, config.parameters), sizes, model.config(), config),
                   config, tuned);
      break;
    case TunerType::freeze:
      train_chosen(model, trained_layers_of(model, sizes, config), config, tuned);
      break;
    case TunerType::adapter:
      train_adapter(model, config, gradients, tuned);
      break;
  }
  for (const auto& size : sizes) tuned.total_count += size.elements;
  for (const auto& [name, tensor] : tuned.trainable) tuned.trainable_count += tensor.numel();
  if (config.kind == TunerType::adapter) tuned.total_count += tuned.trainable_count;
  return tuned;
}

}  // namespace hone::tuner
