#include "hone/tuner/tuner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "hone/base/config_error.h"
#include "hone/base/log.h"
#include "hone/device/placeholder.h"
#include "hone/io/value_head.h"
#include "hone/io/vision_names.h"
#include "hone/io/weight_folder.h"
#include "hone/model/decoder.h"
#include "hone/tuner/freeze.h"
#include "hone/tuner/megatron_layers.h"
#include "hone/tuner/methods/attach.h"
#include "hone/tuner/model_folder.h"
#include "hone/tuner/single_experts.h"
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

std::vector<ParameterSize> parameter_sizes(model::CausalLM& model) {
  std::vector<ParameterSize> sizes;
  for (const auto& parameter : model.parameters()) sizes.push_back({parameter.name, parameter.value->numel()});
  return sizes;
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

// What a gradient-based initialization needs: gradients of this run's first step, or the checkpoint that stores them.
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

// A value head has its own file, next to weights and adapters alike.
void save_value_head(model::CausalLM& model, const fs::path& folder, const ReadWeight& read) {
  std::vector<io::TensorSource> sources;
  for (const auto& parameter : model.parameters()) {
    if (!io::is_of_value_head(parameter.name)) continue;
    sources.push_back(io::TensorSource::of(parameter.name, parameter.value->detach()));
    if (read) sources.back().load = [read, value = *parameter.value] { return read(value); };
  }
  if (!sources.empty()) io::write_safetensors(folder / io::kValueHeadFile, sources);
}

std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

constexpr const char* kSameOptions =
    "continue with the target_modules and modules_to_save of the run that saved it; its args.json has them";

// Reported before shapes are compared; a pair without a place in this run would be lost silently.
void require_same_adapter(const io::Adapter& saved, const Tuned& own, const fs::path& folder) {
  if (saved.config.peft_type != own.adapter->config.peft_type)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: its adapter is of the kind {}, this run's is {}", folder.string(), saved.config.peft_type,
                                own.adapter->config.peft_type),
                    "continue with the `tuner_type` of the run that saved it; its args.json has it");
  if (int64_t rank = saved.config.rank, other = own.adapter->config.rank; rank != other)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: its adapter has rank {}, this run's has rank {}", folder.string(), rank, other),
                    fmt::format("continue with `lora_rank` {}, or start from scratch without the checkpoint", rank));
  for (const auto& [name, tensor] : saved.tensors) {
    bool trained = std::ranges::any_of(own.trainable, [&](const auto& parameter) { return parameter.first == name; });
    if (!trained && name.find(".lora_") != name.npos)
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{}: the adapter holds \"{}\", which this run does not train", folder.string(), name),
                      kSameOptions);
  }
}

void copy_checked(Tensor target, const Tensor& source, const std::string& name, const fs::path& folder, const CopyWeight& copy) {
  if (source.sizes() != target.sizes())
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: {} has shape {}, expected {}", folder.string(), name, fmt::join(source.sizes(), "x"),
                                fmt::join(target.sizes(), "x")),
                    "continue with the model and the tuning options of the run that saved it; its args.json has them");
  at::NoGradGuard no_grad;
  if (copy)
    copy(target, source);
  else
    target.copy_(source);
}

}  // namespace

std::string Tuned::summary() const {
  return fmt::format("trainable parameters: {} of {} ({:.4f}%)", with_commas(trainable_count), with_commas(total_count),
                     100.0 * static_cast<double>(trainable_count) / static_cast<double>(std::max<int64_t>(1, total_count)));
}

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
  if (model.config().vision && lora.target_regex.empty() && means_all_linear(lora.targets))
    made.targets.regex = linear_targets(model, config.frozen_parts);
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
  if (config.use_llama_pro)
    made.layers_to_transform = trained_layers(count_layers(parameter_sizes(model)), config.layers.trainable_layers, true);
  if (!made.is_lora())
    if (auto complete = method_of_type(made.peft_type).complete) complete(made, layer_shapes(model), config.steps);
  return made;
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
    // Of other methods, whose settings need the number of steps, only these.
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

void save_trained(model::CausalLM& model, const Tuned& tuned, const fs::path& folder, size_t max_shard_bytes,
                  const ReadWeight& read) {
  if (tuned.adapter) {
    save_adapter(model, *tuned.adapter, folder);
    if (tuned.adapter->config.init == kLoraGa) save_init_lora(*tuned.adapter, folder / kInitialFolder);
    if (!tuned.adapter->initial.empty()) save_converted_adapter(model, *tuned.adapter, folder / "converted" / "default");
    save_value_head(model, folder, read);
    return;
  }
  std::vector<io::TensorSource> sources;
  for (const auto& parameter : model.parameters()) {
    if (io::is_of_value_head(parameter.name)) continue;
    sources.push_back(io::TensorSource::of(parameter.name, parameter.value->detach()));
    if (read) sources.back().load = [read, value = *parameter.value] { return read(value); };
  }
  append_carried(model, sources);
  if (const auto& experts = model.config().experts; experts.count > 0)
    sources = io::unstack_experts(std::move(sources), experts.stored_as);
  sources = io::StoredNames::of(model.config().source).stored(std::move(sources));
  io::write_sharded(folder, sources, max_shard_bytes);
  save_value_head(model, folder, read);
}

void save_pissa_conversion(model::CausalLM& model, const AttachedAdapter& adapter, const fs::path& folder) {
  save_init_lora(adapter, folder / "pissa_init");
  save_adapter(model, adapter, folder / "pissa_backup");
  save_converted_adapter(model, adapter, folder / "pissa_converted");
}

void load_trained(model::CausalLM& model, const Tuned& tuned, const fs::path& folder, const CopyWeight& copy) {
  std::map<std::string, Tensor> values;
  if (model.decoder().value_head) {
    auto head = io::read_value_head(folder, model.config().hidden_size);
    values = {{fmt::format("{}.weight", io::kValueHead), head.weight}, {fmt::format("{}.bias", io::kValueHead), head.bias}};
  }
  if (tuned.adapter) {
    const auto files = io::read_adapter(folder);
    require_same_adapter(files, tuned, folder);
    std::map<std::string, Tensor> saved(files.tensors.begin(), files.tensors.end());
    saved.insert(values.begin(), values.end());
    for (const auto& [name, tensor] : tuned.trainable) {
      auto found = saved.find(name);
      if (found == saved.end())
        throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: the adapter has no \"{}\"", folder.string(), name),
                        kSameOptions);
      copy_checked(tensor, found->second, name, folder, copy);
    }
    return;
  }
  if (io::adapter_files_in(folder))
    throw UserError(ExitCode::bad_checkpoint, folder.string() + ": holds an adapter; this run trains the model's own weights",
                    "continue with `tuner_type` lora, or start from it: hone export --merge_lora true, then `model`");
  const io::WeightFolder files(folder);
  for (const auto& [name, tensor] : tuned.trainable) {
    auto value = values.find(name);
    copy_checked(tensor, value == values.end() ? files.tensor(name) : value->second, name, folder, copy);
  }
}

}  // namespace hone::tuner
