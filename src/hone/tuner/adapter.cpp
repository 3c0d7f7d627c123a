#include "hone/tuner/adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hone/base/error.h"
#include "hone/model/decoder.h"
#include "hone/tuner/adapter_state_dict.h"
#include "hone/tuner/adapter_targets.h"
#include "hone/tuner/lora_init.h"
#include "hone/tuner/methods/attach.h"
#include "hone/tuner/multi_adapter.h"
#include "hone/tuner/single_experts.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

using model::AdapterSlot;
using model::SlotKind;

bool is_embedding(const AdapterSlot& slot) { return slot.kind == SlotKind::embedding; }
int64_t experts_of(const AdapterSlot& slot) { return slot.kind == SlotKind::experts ? slot.weight->size(0) : 0; }

void require_unquantized_weights(model::CausalLM& model, std::string_view why) {
  for (const model::Linear* linear : model.tree().linears())
    if (linear->quantized_base)
      throw UserError(ExitCode::usage, fmt::format("the base model is quantized, and {}", why), "leave `quant_bits` out");
}

void move_in(Tensor& slot, const Tensor& value) { slot = value.detach(); }

// An adapter on the embedding or the head changes only that one, as in PEFT: a tied model becomes untied. The head's weight is
// then a separate parameter, which is sharded, placed and replaced separately, though both share their values.
template <class Touches>
void untie_if_touched(model::CausalLM& model, Touches touches) {
  if (!model.config().tie_word_embeddings || !(touches(model.embedding().name) || touches(model.head().name))) return;
  model.decoder().config.tie_word_embeddings = false;
  move_in(model.head().weight, model.embedding().weight);
}

// PiSSA's randomized initialization must be reproducible when the adapter is loaded, where the run's seed is unknown.
uint64_t seed_for(const std::string& init, uint64_t seed) { return changes_base(init) ? 0 : seed; }

// The initialization of one layer and its changed base weight.
LoraPair start_of(const AdapterSlot& site, const io::AdapterConfig& config, int64_t rank, double scale,
                  const AttachOptions& options, const std::map<std::string, LoraLayer>& known) {
  auto generator = layer_generator(site.path, seed_for(config.init, options.seed));
  if (is_embedding(site)) return initial_embedding_lora(*site.weight, rank, config.init, generator);
  if (site.kind == SlotKind::experts)
    return init_lora(site.weight->select(0, 0), rank * experts_of(site), scale, config, generator);
  if (config.init != kLoraGa) return init_lora(*site.weight, rank, scale, config, generator);
  const auto device = site.weight->device();
  if (auto pair = known.find(site.path); pair != known.end())
    return subtract_from_base(*site.weight, pair->second.weights.a.to(device, at::kFloat),
                              pair->second.weights.b.to(device, at::kFloat), scale);
  auto gradient = options.gradients.find(site.path);
  HONE_CHECK(gradient != options.gradients.end(), "a start by gradients has one for every target");
  return lora_ga_init(*site.weight, gradient->second, rank, scale, options.gradient_start, generator);
}

LoraLayer fresh_layer(const AdapterSlot& site, const io::AdapterConfig& config, const TargetMatcher& matcher,
                      const AttachOptions& options, const std::map<std::string, LoraLayer>& known, Tensor* residual) {
  LoraLayer layer;
  layer.embedding = is_embedding(site);
  layer.experts = experts_of(site);
  const int64_t rank = matcher.rank(site.path);
  auto& weights = layer.weights;
  weights.scale = config.scale(rank, matcher.alpha(site.path));
  weights.dropout = config.dropout;
  auto pair = start_of(site, config, rank, weights.scale, options, known);
  weights.a = pair.a;
  weights.b = pair.b;
  *residual = pair.residual;
  const Tensor& base = pair.residual.defined() ? pair.residual : *site.weight;
  if (config.dora && !is_embedding(site)) weights.magnitude = dora_magnitudes(base, pair.a, pair.b, weights.scale);
  return layer;
}

// Next to the weight. A weight that was rounded for inference is only a shape.
void put(const model::CausalLM& model, const AdapterSlot& site, ops::LoraWeights weights, const AttachOptions& options) {
  weights.adapter = options.name;
  const auto device = site.weight->is_meta() ? model.device() : site.weight->device();
  const auto settle = [&](Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(device, options.dtype, /*non_blocking=*/false, /*copy=*/true).detach();
  };
  settle(weights.a);
  settle(weights.b);
  settle(weights.magnitude);
  site.adapters->push_back(std::move(weights));
}

void remember_initial(AttachedAdapter& adapter, const std::string& path, const LoraLayer& layer) {
  if (!inits_from_base(adapter.config.init) && adapter.config.init != kLoraGa) return;
  adapter.initial.emplace_back(path + ".lora_A.weight", layer.weights.a.detach().clone());
  adapter.initial.emplace_back(path + ".lora_B.weight", layer.weights.b.detach().clone());
}

bool trains_bias(const io::AdapterConfig& config, const TargetMatcher& matcher, const std::string& parameter) {
  if (!parameter.ends_with(".bias")) return false;
  return config.bias == "all" || (config.bias == "lora_only" && matcher(parameter.substr(0, parameter.size() - 5)));
}

// Gives the adapter its own copy of a base weight, in the base's dtype, in which the surrounding layers compute.
void take_modules_to_save(AttachedAdapter& adapter, const model::NamedParameter& parameter, const Tensor& value) {
  adapter.modules_to_save.push_back({parameter.name, parameter.value, *parameter.value});
  move_in(*parameter.value,
          value.to(parameter.value->device(), parameter.value->scalar_type(), /*non_blocking=*/false, /*copy=*/true));
}

// An update of a parameter changes the weight, not a layer's input: PEFT rejects these settings for it.
void require_plain_updates(const io::AdapterConfig& config) {
  if (config.target_parameters.empty()) return;
  if (config.dropout != 0)
    throw UserError(ExitCode::usage, fmt::format("`target_parameters` with `lora_dropout` {}", config.dropout),
                    "an update of a parameter has no input to drop: pass `lora_dropout` 0");
  if (config.dora || (config.init != "true" && config.init != "false" && config.init != "gaussian"))
    throw UserError(ExitCode::usage,
                    fmt::format("`target_parameters` with {}", config.dora ? "`use_dora`" : "`init_weights` " + config.init),
                    "parameters take plain LoRA updates");
}

// Attaches a low-rank pair to every module that the config selects.
void attach_pairs(model::CausalLM& model, AttachedAdapter& adapter, const TargetMatcher& matcher, const AttachOptions& options) {
  const auto all = model.tree().slots();
  const auto known = options.started_in ? initial_pairs(*options.started_in, adapter.config) : std::map<std::string, LoraLayer>();
  size_t adapted = 0;
  for (const auto& site : all) {
    if (!matcher.slot(site)) continue;
    Tensor residual;
    auto layer = fresh_layer(site, adapter.config, matcher, options, known, &residual);
    if (residual.defined()) {
      remember_initial(adapter, site.path, layer);
      move_in(*site.weight, residual);
    }
    put(model, site, layer.weights, options);
    ++adapted;
  }
  require_matches(adapter.config, all, adapted);
}

}  // namespace

AttachedAdapter attach_adapter(model::CausalLM& model, const io::AdapterConfig& config, const AttachOptions& options) {
  check_init(config.init);
  if (changes_base(config.init) || config.init == kLoraGa || config.dora)
    require_unquantized_weights(model, "this kind of adapter reads them");
  for (const model::Linear* linear : model.tree().linears())
    if (linear->quantized_base && saves_parameter(config.modules_to_save, linear->name + ".weight"))
      require_unquantized_weights(model, linear->name + " is to be trained in full");
  require_plain_updates(config);
  const TargetMatcher matcher(config);
  AttachedAdapter adapter{options.name, config, {}, {}};
  untie_if_touched(
      model, [&](const std::string& path) { return matcher(path) || saves_parameter(config.modules_to_save, path + ".weight"); });
  if (config.is_lora())
    attach_pairs(model, adapter, matcher, options);
  else
    put_tuners(model, make_tuners(layer_shapes(model), config, options.seed), options);
  for (const auto& parameter : model.parameters())
    if (saves_parameter(config.modules_to_save, parameter.name) || trains_bias(config, matcher, parameter.name))
      take_modules_to_save(adapter, parameter, *parameter.value);
  return adapter;
}

AttachedAdapter load_adapter(model::CausalLM& model, const fs::path& folder, const AttachOptions& options) try {
  io::Adapter files = io::read_adapter(folder);
  if (files.config.is_lora()) stack_single_experts(files, folder.string());
  AdapterStateDict parts;
  if (files.config.is_lora())
    parts = parse_adapter_state_dict(files, folder.string());
  else
    put_tuners(model, read_tuners(layer_shapes(model), files, folder.string(), parts.modules_to_save), options);
  if (files.config.is_lora() && changes_base(files.config.init))
    require_unquantized_weights(model, "this kind of adapter reads them");
  AttachedAdapter adapter{options.name, files.config, {}, {}};
  untie_if_touched(model, [&](const std::string& path) {
    return parts.layers.contains(path) || parts.modules_to_save.contains(path + ".weight");
  });
  // Before the pairs: a file may contain its own base weight for an adapted layer.
  for (const auto& parameter : model.parameters()) {
    auto found = parts.modules_to_save.find(parameter.name);
    if (found == parts.modules_to_save.end()) continue;
    if (found->second.sizes() != parameter.value->sizes())
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{}: {} has shape {}, the base has {}", folder.string(), parameter.name,
                                  fmt::join(found->second.sizes(), "x"), fmt::join(parameter.value->sizes(), "x")));
    take_modules_to_save(adapter, parameter, found->second);
    parts.modules_to_save.erase(found);
  }
  const auto known = initial_pairs(folder, files.config);
  for (const auto& site : model.tree().slots()) {
    auto found = parts.layers.find(site.path);
    if (found == parts.layers.end()) continue;
    check_fits(site.path, found->second, site.weight->sizes(), folder.string());
    if ((changes_base(files.config.init) || known.contains(site.path)) && site.kind == SlotKind::linear) {
      Tensor residual;
      auto start = fresh_layer(site, files.config, TargetMatcher(files.config), options, known, &residual);
      remember_initial(adapter, site.path, start);
      move_in(*site.weight, residual);
    }
    put(model, site, found->second.weights, options);
    parts.layers.erase(found);
  }
  if (!parts.layers.empty() || !parts.modules_to_save.empty())
    throw UserError(
        ExitCode::bad_checkpoint,
        fmt::format("{}: the base model has no \"{}\"", folder.string(),
                    parts.layers.empty() ? parts.modules_to_save.begin()->first : parts.layers.begin()->first),
        fmt::format("the adapter was made for {}", files.config.base_model.empty() ? "another model" : files.config.base_model));
  return adapter;
} catch (...) {
  delete_adapter(model, options.name);  // a server that was given an invalid adapter continues with the unchanged model
  throw;
}

void set_active(model::CausalLM& model, const std::vector<std::string>& adapters) {
  std::set<std::string> known;
  for (const auto& site : model.tree().slots())
    for (auto& weights : *site.adapters) {
      known.insert(weights.adapter);
      weights.active = std::ranges::count(adapters, weights.adapter) > 0;
    }
  for (const model::Linear* linear : model.tree().linears())
    for (const auto& tuner : linear->tuners) {
      known.insert(tuner->adapter);
      tuner->active = std::ranges::count(adapters, tuner->adapter) > 0;
    }
  for (const auto& name : adapters)
    if (!known.contains(name))
      throw UserError(ExitCode::usage, fmt::format("no adapter is called \"{}\"", name),
                      fmt::format("loaded: {}", fmt::join(known, ", ")));
}

bool should_merge_for_inference(model::CausalLM& model, const AttachedAdapter& adapter) {
  if (adapter.config.is_lora() || !merges(adapter.config)) return false;
  return std::ranges::none_of(model.tree().linears(),
                              [](const model::Linear* linear) { return linear->quantized_base || linear->quantized; });
}

void merge_adapter(model::CausalLM& model, const AttachedAdapter& adapter) {
  require_unquantized_weights(model, "an adapter cannot be merged into them");
  require_merges(adapter.config);
  at::NoGradGuard no_grad;
  for (const auto& site : model.tree().slots()) {
    for (auto& weights : *site.adapters)
      if (weights.adapter == adapter.name)
        move_in(*site.weight, merged_weight(*site.weight, {weights, is_embedding(site), experts_of(site)}));
    std::erase_if(*site.adapters, [&](const auto& weights) { return weights.adapter == adapter.name; });
  }
  for_each_tuner(model, adapter, [](model::Linear& linear, const std::string&, model::LinearTuner& tuner) {
    move_in(linear.weight, merged_by(tuner, linear.weight));
  });
  delete_adapter(model, adapter.name);
}

}  // namespace hone::tuner
