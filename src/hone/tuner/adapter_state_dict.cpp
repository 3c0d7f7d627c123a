#include "hone/tuner/adapter_state_dict.h"

#include <fmt/ranges.h>

#include "hone/ops/moe/moe.h"
#include "hone/tuner/lora_ga.h"
#include "hone/tuner/lora_init.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

bool strip(std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

void erase_part(std::string& name, std::string_view part) {
  if (size_t at = name.find(part); at != std::string::npos) name.erase(at, part.size());
}

void place(AdapterStateDict& parts, std::string name, const Tensor& tensor) {
  if (strip(name, ".lora_A.weight")) {
    parts.layers[name].weights.a = tensor;
  } else if (strip(name, ".lora_B.weight")) {
    parts.layers[name].weights.b = tensor;
  } else if (strip(name, ".lora_magnitude_vector") || strip(name, ".lora_magnitude_vector.weight")) {
    parts.layers[name].weights.magnitude = tensor;
  } else if (strip(name, ".lora_embedding_A")) {
    parts.layers[name].embedding = true;
    parts.layers[name].weights.a = tensor;
  } else if (strip(name, ".lora_embedding_B")) {
    parts.layers[name].embedding = true;
    parts.layers[name].weights.b = tensor;
  } else {
    parts.modules_to_save[plain_name(name)] = tensor;
  }
}

// PEFT names a pair of experts after wrappers around the module that holds their parameters: if both are adapted, gate_up_proj's
// is inside down_proj's.
void name_expert_pairs(AdapterStateDict& parts, const TargetMatcher& matcher, const io::AdapterConfig& config) {
  if (config.target_parameters.empty()) return;
  std::map<std::string, LoraLayer> named;
  for (auto& [path, layer] : parts.layers) {
    std::string module = path;
    const bool inside = strip(module, ".base_layer");
    if (!ends_in(module, "experts")) {
      named[path] = std::move(layer);
      continue;
    }
    const auto gate_up = module + ".gate_up_proj", down = module + ".down_proj";
    const bool both = matcher.parameter(gate_up) && matcher.parameter(down);
    const auto& name = inside || (!both && matcher.parameter(gate_up)) ? gate_up : down;
    const auto& a = layer.weights.a;
    layer.experts = a.defined() && a.dim() == 2 ? std::max<int64_t>(1, a.size(0) / matcher.rank(name)) : 1;
    named[name] = std::move(layer);
  }
  parts.layers = std::move(named);
}

}  // namespace

std::string plain_name(std::string name) {
  erase_part(name, "base_layer.");
  erase_part(name, "modules_to_save.");
  return name;
}

AdapterStateDict parse_adapter_state_dict(const io::Adapter& adapter, const std::string& origin) {
  AdapterStateDict parts;
  for (const auto& [name, tensor] : adapter.tensors) place(parts, name, tensor);
  const TargetMatcher matcher(adapter.config);
  name_expert_pairs(parts, matcher, adapter.config);
  for (auto& [path, layer] : parts.layers) {
    auto& weights = layer.weights;
    if (!weights.a.defined() || !weights.b.defined())
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: {} has only one of its two matrices", origin, path));
    const int64_t rank = matcher.rank(path);
    const int64_t inner = rank * std::max<int64_t>(1, layer.experts);
    if (weights.a.dim() != 2 || weights.b.dim() != 2 || weights.a.size(0) != inner || weights.b.size(1) != inner)
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{}: {} has matrices {} and {}, the config says rank {}", origin, path,
                                  fmt::join(weights.a.sizes(), "x"), fmt::join(weights.b.sizes(), "x"), rank));
    if (adapter.config.dora && !layer.embedding && !weights.magnitude.defined())
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{}: {} has no lora_magnitude_vector, the config says use_dora", origin, path));
    weights.scale = adapter.config.scale(rank, matcher.alpha(path));
    weights.dropout = adapter.config.dropout;
  }
  if (parts.layers.empty() && parts.modules_to_save.empty())
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: the adapter holds no tensors", origin));
  return parts;
}

std::map<std::string, LoraLayer> initial_pairs(const std::filesystem::path& folder, const io::AdapterConfig& config) {
  const auto initial = folder / kInitialFolder;
  if (config.init != kLoraGa || !std::filesystem::exists(initial)) return {};
  return parse_adapter_state_dict(io::read_adapter(initial), initial.string()).layers;
}

void check_fits(const std::string& path, const LoraLayer& layer, at::IntArrayRef base_shape, const std::string& origin) {
  const int64_t out = layer.weights.b.size(0), in = layer.weights.a.size(1);
  const std::vector<int64_t> expected = layer.experts > 0 ? std::vector{layer.experts, out, in}
                                        : layer.embedding ? std::vector{in, out}
                                                          : std::vector{out, in};
  if (base_shape != at::IntArrayRef(expected))
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: {} was made for a weight {}, the base has {}", origin, path, fmt::join(expected, "x"),
                                fmt::join(base_shape, "x")),
                    "the adapter belongs to another base model; base_model_name_or_path in its adapter_config.json says which");
}

Tensor merged_weight(const Tensor& weight, const LoraLayer& layer) {
  at::NoGradGuard no_grad;
  const auto& lora = layer.weights;
  if (layer.experts > 0) return (weight.to(at::kFloat) + ops::expert_lora_delta(lora, layer.experts)).to(weight.scalar_type());
  Tensor change = lora.b.to(at::kFloat).mm(lora.a.to(at::kFloat)) * lora.scale;
  Tensor merged = weight.to(at::kFloat) + (layer.embedding ? change.t() : change);
  if (lora.magnitude.defined())
    merged = merged * (lora.magnitude.to(at::kFloat) / at::linalg_vector_norm(merged, 2, /*dim=*/1)).unsqueeze(1);
  return merged.to(weight.scalar_type());
}

}  // namespace hone::tuner
