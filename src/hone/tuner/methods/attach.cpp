#include "hone/tuner/methods/attach.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "hone/tuner/adapter_state_dict.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

constexpr const char* kHeadPath = "lm_head";

std::string owner_of(const PeftMethod& method, const std::string& path) { return method.owner ? method.owner(path) : path; }

// Methods that follow a block's MLP do not support experts.
bool lacks_its_place(const PeftMethod& method, const std::vector<LayerShape>& candidates) {
  return method.owner &&
         std::ranges::all_of(candidates, [&](const LayerShape& layer) { return method.owner(layer.path).empty(); });
}

[[noreturn]] void complain_of_targets(const PeftMethod& method, const std::vector<LayerShape>& candidates) {
  if (lacks_its_place(method, candidates))
    throw UserError(ExitCode::usage,
                    fmt::format("{} works after the MLP of a block, and this model has experts there", method.name),
                    "use `tuner_type` lora, which also supports experts (`target_parameters`), or another tuner that changes "
                    "layers: adalora, vera, oft, boft, fourierft");
  std::set<std::string> names;
  for (const auto& layer : candidates) names.insert(std::string(last_part(layer.path)));
  throw UserError(ExitCode::usage, "`target_modules` match no layer", fmt::format("layers here: {}", fmt::join(names, ", ")));
}

void fill(const model::NamedParameter& slot, const std::string& name, std::map<std::string, Tensor>& values,
          const std::string& origin) {
  auto found = values.find(name);
  if (found == values.end())
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: the adapter has no \"{}\"", origin, name));
  if (found->second.sizes() != slot.value->sizes())
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: {} has shape {}, expected {}", origin, name, fmt::join(found->second.sizes(), "x"),
                                fmt::join(slot.value->sizes(), "x")),
                    "the adapter belongs to another base model, or its adapter_config.json was changed");
  *slot.value = found->second.to(at::kFloat);
  values.erase(found);
}

}  // namespace

MadeTuners make_tuners(const std::vector<LayerShape>& candidates, const io::AdapterConfig& config, uint64_t seed) {
  const PeftMethod& method = method_of_type(config.peft_type);
  const TargetMatcher matcher(config);
  MadeTuners made;
  for (auto layer : candidates) {
    layer.owner = owner_of(method, layer.path);
    if (layer.owner.empty() || !matcher(layer.owner)) continue;
    if (layer.path == kHeadPath)
      throw UserError(ExitCode::usage, fmt::format("`target_modules` name lm_head, which {} cannot change", config.peft_type),
                      "train it in full with `modules_to_save` lm_head");
    made.layers.push_back(layer);
  }
  if (made.layers.empty()) complain_of_targets(method, candidates);
  made.tuners = method.make(made.layers, config, seed);
  return made;
}

MadeTuners read_tuners(const std::vector<LayerShape>& candidates, io::Adapter& files, const std::string& origin,
                       std::map<std::string, Tensor>& others) {
  const PeftMethod& method = method_of_type(files.config.peft_type);
  if (method.follow_tensors) method.follow_tensors(files.config, files.tensors);
  auto made = make_tuners(candidates, files.config, /*seed=*/0);
  std::map<std::string, Tensor> values(files.tensors.begin(), files.tensors.end());
  for (size_t i = 0; i < made.layers.size(); ++i)
    for (const auto& slots : {made.tuners[i]->tensors(), made.tuners[i]->fixed()})
      for (const auto& slot : slots) fill(slot, made.layers[i].owner + "." + slot.name, values, origin);
  for (const auto& slot : made.tuners.front()->shared())
    if (values.contains(slot.name)) fill(slot, slot.name, values, origin);  // otherwise drawn again from the config's key
  for (auto& [name, tensor] : values) others[plain_name(name)] = tensor;
  return made;
}

std::vector<LayerShape> layer_shapes(model::CausalLM& model) {
  std::vector<LayerShape> shapes;
  for (const model::Linear* linear : model.tree().linears())
    shapes.push_back({linear->name, "", linear->weight.size(1), linear->weight.size(0)});
  return shapes;
}

void put_tuners(model::CausalLM& model, const MadeTuners& made, const AttachOptions& options) {
  const auto device = model.device();
  const auto settle = [&](const model::NamedParameter& slot) {
    *slot.value = slot.value->to(device, options.dtype, /*non_blocking=*/false, /*copy=*/true).detach();
  };
  for (const auto& slot : made.tuners.front()->shared()) settle(slot);
  std::map<std::string, model::Linear*> linears;
  for (model::Linear* linear : model.tree().linears()) linears[linear->name] = linear;
  for (size_t i = 0; i < made.layers.size(); ++i) {
    const auto& tuner = made.tuners[i];
    if (tuner->needs_plain_residual() && !model.config().has_plain_residual())
      throw UserError(ExitCode::usage,
                      fmt::format("{} normalizes or scales the MLP's output, and this tuner needs the plain output",
                                  model.config().architecture),
                      "use `tuner_type` lora, or another tuner that changes layers: adalora, vera, oft, boft, fourierft");
    for (const auto& slots : {tuner->tensors(), tuner->fixed()})
      for (const auto& slot : slots) settle(slot);
    tuner->adapter = options.name;
    linears.at(made.layers[i].path)->tuners.push_back(tuner);
  }
}

void for_each_tuner(
    model::CausalLM& model, const AttachedAdapter& adapter,
    const std::function<void(model::Linear& linear, const std::string& owner, model::LinearTuner& tuner)>& visit) {
  if (adapter.config.is_lora()) return;
  const PeftMethod& method = method_of_type(adapter.config.peft_type);
  for (model::Linear* linear : model.tree().linears())
    for (const auto& tuner : linear->tuners)
      if (tuner->adapter == adapter.name) visit(*linear, owner_of(method, linear->name), *tuner);
}

bool merges(const io::AdapterConfig& config) { return config.is_lora() || method_of_type(config.peft_type).merges; }

void require_merges(const io::AdapterConfig& config) {
  if (!merges(config))
    throw UserError(
        ExitCode::usage,
        fmt::format("an adapter of type {} is a separate network after the layers and cannot be merged", config.peft_type),
        "use it as it is, with `adapters`");
}

Tensor merged_by(const model::LinearTuner& tuner, const Tensor& weight) {
  at::NoGradGuard no_grad;
  return tuner.merged(weight.to(at::kFloat)).to(weight.scalar_type());
}

}  // namespace hone::tuner
