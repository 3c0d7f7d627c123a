#include "hone/train/plan/workload.h"

#include <algorithm>

#include "hone/model/decoder.h"
#include "hone/tuner/adapter_targets.h"
#include "hone/tuner/freeze.h"
#include "hone/tuner/methods/attach.h"
#include "hone/tuner/targets.h"
#include "hone/tuner/tuner.h"
#include "hone/tuner/vision_parts.h"

namespace hone::train {
namespace {

bool is_adapted(const std::string& path, const tuner::LoraConfig& lora) {
  if (!lora.target_regex.empty()) return std::regex_match(path, tuner::compile_regex(lora.target_regex, "target_regex"));
  return std::ranges::any_of(lora.targets, [&](const std::string& target) {
    return target == "all-linear" || target == "all" || tuner::ends_in(path, target);
  });
}

// Built for one block, since all are alike.
void count_method(Workload& work, model::Decoder& decoder, const tuner::TunerConfig& tuner) {
  std::vector<tuner::LayerShape> layers;
  for (const auto* linear : decoder.blocks.front().module().linears())
    layers.push_back({linear->name, "", linear->weight.size(1), linear->weight.size(0)});
  io::AdapterConfig config;
  config.peft_type = tuner.method;
  config.extra_fields = tuner.method_fields;
  config.dropout = tuner.lora.dropout;
  for (const auto& layer : layers)
    if (is_adapted(layer.path, tuner.lora)) config.targets.names.push_back(layer.path);
  if (auto complete = tuner::method_of_type(tuner.method).complete) complete(config, layers, 0);
  const auto made = tuner::make_tuners(layers, config, 0);
  for (const auto& each : made.tuners)
    for (const auto& tensor : each->tensors()) work.adapter_parameters += tensor.value->numel();
  work.adapter_parameters *= static_cast<int64_t>(decoder.blocks.size());
  for (const auto& layer : made.layers)
    work.adapted_inputs += layer.in;  // of the rotated input, or of its copy in the adapter's dtype
}

bool is_frozen_part(const std::string& name, const model::DecoderConfig& model, const tuner::TunerConfig& tuner) {
  return model.vision && tuner::is_frozen(tuner::part_of(name, model), tuner.frozen_parts);
}

void count_pairs(Workload& work, model::CausalLM& model, const tuner::TunerConfig& tuner) {
  const auto& lora = tuner.lora;
  const auto config = tuner::adapter_config(model, tuner);
  const tuner::TargetMatcher matcher(config);
  work.adapter_bytes = lora.dtype && *lora.dtype != at::kFloat ? 2 : 4;
  work.adapter_dropout = lora.dropout > 0;
  work.adapter_parameters = tuner::lora_elements(model, config);
  for (const auto& slot : model.tree().slots())
    work.tower_trains |= work.model.vision && work.model.vision->is_of_tower(slot.path) && matcher.slot(slot);
  for (const auto* linear : model.decoder().blocks.front().module().linears())
    if (matcher(linear->name)) work.adapted_inputs += linear->weight.size(1), work.adapted_ranks += matcher.rank(linear->name);
}

bool is_head(const std::string& name, const model::DecoderConfig& model) {
  return name == model.names.head + ".weight" || (model.tie_word_embeddings && name.ends_with("embed_tokens.weight"));
}

// The adapter, and the modules that train with it in full.
void count_adapter(Workload& work, model::CausalLM& model, const tuner::TunerConfig& tuner) {
  if (tuner.method == "LORA")
    count_pairs(work, model, tuner);
  else
    count_method(work, model.decoder(), tuner);
  const auto saved = tuner::saved_modules(model, tuner);
  for (const auto& parameter : model.parameters()) {
    if (!tuner::saves_parameter(saved, parameter.name)) continue;
    work.trained_base += parameter.value->numel();
    work.head_trains |= is_head(parameter.name, work.model);
    work.tower_trains |= work.model.vision && work.model.vision->is_of_tower(parameter.name);
  }
}

std::vector<bool> trained_base(const std::vector<tuner::ParameterSize>& sizes, const tuner::TunerConfig& tuner) {
  if (tuner.kind == tuner::TunerType::freeze) return tuner::trained_by_layer(sizes, tuner.layers, tuner.use_llama_pro);
  return tuner::trained_by_prefix(sizes, tuner.parameters);
}

}  // namespace

void count_parameters(Workload& work, const tuner::TunerConfig& tuner) {
  const auto skeleton = model::CausalLM::skeleton(work.model);
  tuner::require_modules(*skeleton, tuner);
  auto& decoder = skeleton->decoder();
  std::vector<tuner::ParameterSize> sizes;
  for (const auto& parameter : decoder.tree().parameters()) sizes.push_back({parameter.name, parameter.value->numel()});
  for (const auto& size : sizes) work.parameters += size.elements;
  for (auto& block : decoder.blocks) {
    int64_t elements = 0;
    for (const auto& parameter : block.module().parameters()) elements += parameter.value->numel();
    work.largest_block = std::max(work.largest_block, elements);
    for (const auto* linear : block.module().linears()) work.linear_parameters += linear->weight.numel();
  }
  work.tower_trains = work.model.vision && !(tuner.frozen_parts.vit && tuner.frozen_parts.aligner);
  if (tuner.kind == tuner::TunerType::adapter) return count_adapter(work, *skeleton, tuner);
  auto trained = trained_base(sizes, tuner);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!trained[i] || is_frozen_part(sizes[i].name, work.model, tuner)) continue;
    work.trained_base += sizes[i].elements;
    work.head_trains |= is_head(sizes[i].name, work.model);
  }
}

void count_optimizer(Workload& work, const optim::OptimizerConfig& optimizer) {
  const auto& name = optimizer.name;
  bool eight_bit = name.find("8bit") != name.npos, four_bit = name.find("4bit") != name.npos;
  if (name == "sgd") work.moments = 0;
  if (name.starts_with("lion") || name == "muon" || name == "adagrad" || name == "rmsprop") work.moments = 1;
  if (name.starts_with("adafactor") || name.starts_with("galore") || name.starts_with("apollo")) work.moments = 0.05;
  if (name == "adam_mini") work.moments = 1;
  if (eight_bit) work.moment_bytes = 1;
  if (four_bit) work.moment_bytes = 0.5;
  auto bytes_of = [](at::ScalarType type) { return type == at::kFloat ? 4.0 : 2.0; };
  if (optimizer.adam.rounds_moments())
    work.moment_bytes = (bytes_of(optimizer.adam.exp_avg_dtype) + bytes_of(optimizer.adam.exp_avg_sq_dtype)) / 2;
}

}  // namespace hone::train
