#include "hone/tinker/model/training_run.h"

#include <cmath>
#include <set>

#include "hone/base/log.h"
#include "hone/optim/factory.h"
#include "hone/tinker/wire/json_fields.h"
#include "hone/tuner/adapter_files.h"
#include "hone/tuner/adapter_targets.h"
#include "hone/tuner/multi_adapter.h"
#include "hone/tuner/targets.h"
#include "hone/tuner/trained_files.h"

namespace hone::tinker {
namespace {

constexpr const char* kOptimizerFile = "optimizer.safetensors";

}  // namespace

void AdamParams::check(const Json& json) {
  constexpr double kBelowOne = 1 - 1e-9;
  for (const char* name : {"learning_rate", "beta1", "beta2", "eps", "weight_decay", "grad_clip_norm", "grad_scale"})
    if (json.contains(name) && json[name].is_null())
      throw RequestError(fmt::format("{} is null, as NaN and infinity are in JSON; expected a number", name));
  for (const char* name : {"beta1", "beta2"}) real_field(json, name, 0, 0, kBelowOne);
}

AdamParams AdamParams::from_json(const Json& json) {
  constexpr double kMost = 1e12;
  AdamParams params;
  params.learning_rate = real_field(json, "learning_rate", params.learning_rate, 0, kMost);
  params.beta1 = real_field(json, "beta1", params.beta1, 0, 1);
  params.beta2 = real_field(json, "beta2", params.beta2, 0, 1);
  params.eps = real_field(json, "eps", params.eps, 0, kMost);
  params.weight_decay = real_field(json, "weight_decay", params.weight_decay, 0, kMost);
  params.grad_clip_norm = real_field(json, "grad_clip_norm", params.grad_clip_norm, -kMost, kMost);
  params.grad_scale = real_field(json, "grad_scale", params.grad_scale, 0, 1);
  return params;
}

bool AdamParams::same_state(const AdamParams& other) const {
  return beta1 == other.beta1 && beta2 == other.beta2 && eps == other.eps && weight_decay == other.weight_decay;
}

static bool trains_experts(const model::CausalLM& model, const RunConfig& config) {
  return config.train_mlp && model.config().experts.count > 0;
}

std::vector<std::string> lora_targets(model::CausalLM& model, const RunConfig& config) {
  std::set<std::string> names;
  const auto& modules = model.config().names;
  for (const auto* linear : model.tree().linears()) {
    auto is_in = [&](const std::string& module) { return linear->name.find("." + module + ".") != std::string::npos; };
    const bool attention = is_in(modules.attention) || is_in(modules.linear_attention), mlp = is_in(modules.mlp);
    if ((attention && config.train_attn) || (mlp && config.train_mlp)) names.insert(std::string(tuner::last_part(linear->name)));
  }
  if (config.train_unembed) names.insert(std::string(tuner::last_part(model.head().name)));
  if (names.empty() && !trains_experts(model, config))
    throw RequestError("train_attn, train_mlp and train_unembed are all false: nothing would train");
  return {names.begin(), names.end()};
}

static io::AdapterConfig adapter_of(model::CausalLM& model, const RunConfig& config, const std::string& base_model) {
  tuner::TunerConfig settings;
  settings.base_model = base_model;
  settings.lora.rank = config.rank;
  settings.lora.alpha = config.alpha;
  settings.lora.dropout = config.dropout;
  settings.lora.targets = lora_targets(model, config);
  if (trains_experts(model, config)) settings.lora.target_parameters = {tuner::kAllExperts};
  return tuner::adapter_config(model, settings);
}

int64_t TrainingRun::bytes_of(model::CausalLM& model, const RunConfig& config) {
  constexpr int64_t kCopies = 4;  // weights, gradients, and Adam's two moments
  return tuner::lora_elements(model, adapter_of(model, config, "")) * kCopies * static_cast<int64_t>(sizeof(float));
}

TrainingRun::TrainingRun(model::CausalLM& model, std::string name, const RunConfig& config, const std::string& base_model)
    : model_(model),
      name_(std::move(name)),
      bytes_(bytes_of(model, config)),
      trains_experts_(tinker::trains_experts(model, config)),
      dropout_(config.dropout),
      seed_(config.seed) {
  const auto adapter = adapter_of(model, config, base_model);
  tuned_.adapter = tuner::attach_adapter(model, adapter, {.name = name_, .dtype = at::kFloat, .seed = config.seed});
  const auto factors = tuner::adapter_tensors(model, *tuned_.adapter);
  if (FlatFactors::supports(*factors.front().value)) flat_.emplace(factors);
  for (const auto& [name, factor] : factors) {
    factor->requires_grad_(true);
    tuned_.trainable.emplace_back(name, *factor);
  }
  tuner::set_inactive(model, name_);
  make_optimizer({});
}

TrainingRun::~TrainingRun() { tuner::delete_adapter(model_, name_); }

optim::ParameterGroup TrainingRun::parameters(double weight_decay) const {
  if (flat_) return flat_->group(weight_decay);
  optim::ParameterGroup group{.names = {}, .parameters = {}, .weight_decay = weight_decay};
  for (const auto& [name, tensor] : tuned_.trainable) {
    group.names.push_back(name);
    group.parameters.push_back(tensor);
  }
  return group;
}

void TrainingRun::make_optimizer(const AdamParams& params) {
  optim::OptimizerConfig config;
  config.adam = {.beta1 = params.beta1, .beta2 = params.beta2, .epsilon = params.eps};
  auto made = optim::make_optimizer(config, {parameters(params.weight_decay)});
  if (optimizer_) made->load_state(optimizer_->state());
  optimizer_ = std::move(made);
  params_ = params;
}

void TrainingRun::note_gradients(const PairMetrics& pairs) {
  accumulated_ = true;
  pairs_.add(pairs);
}

void TrainingRun::clear_gradients() {
  if (flat_)
    flat_->zero_grad();
  else
    optimizer_->zero_grad();
  accumulated_ = spoiled_ = false;
  pairs_ = {};
}

double TrainingRun::grad_norm() { return accumulated_ ? optimizer_->clip_grad_norm(0).item<double>() : 0; }

Json TrainingRun::optim_step(const AdamParams& params) {
  if (spoiled_)
    throw RequestError("a forward_backward before this optim_step failed: its gradients were dropped and nothing was updated");
  if (!params.same_state(params_)) make_optimizer(params);
  if (!accumulated_) return {{"grad_norm", 0.0}};  // as in torch: without gradients a step changes nothing
  if (params.grad_scale != 1)
    for (const auto& tensor : optimizer_->groups().front().parameters)
      if (tensor.grad().defined()) tensor.grad().mul_(params.grad_scale);
  const double norm = optimizer_->clip_grad_norm(std::max(0.0, params.grad_clip_norm)).item<double>();
  if (!std::isfinite(norm)) throw RequestError("the gradients are not finite: they were dropped and nothing was updated");
  optimizer_->step(params.learning_rate);
  Json metrics = {{"grad_norm", norm}};
  for (const auto& [name, mean] : pairs_.means("")) metrics[name] = mean;
  clear_gradients();
  return metrics;
}

void TrainingRun::save_weights(const std::filesystem::path& folder) const {
  tuner::save_adapter(model_, *tuned_.adapter, folder);
}

void TrainingRun::save_optimizer(const std::filesystem::path& folder) const {
  std::vector<io::TensorSource> sources;
  const auto state = flat_ ? flat_->split(optimizer_->state()) : optimizer_->state();
  for (const auto& [name, tensor] : state) sources.push_back(io::TensorSource::of(name, tensor.detach()));
  io::write_safetensors(folder / kOptimizerFile, sources);
}

void TrainingRun::load(const std::filesystem::path& folder, bool optimizer) try {
  if (!std::filesystem::exists(folder)) throw RequestError("the files of this checkpoint are not on the server any more");
  at::NoGradGuard no_grad;
  tuner::load_trained(model_, tuned_, folder);
  clear_gradients();
  optimizer_.reset();
  make_optimizer(params_);
  if (!optimizer) return;
  const auto file = folder / kOptimizerFile;
  if (!std::filesystem::exists(file))
    throw RequestError("the checkpoint holds weights alone, for sampling: load it without the optimizer's state");
  io::SafetensorsFile saved(file);
  optim::NamedTensors state;
  for (const auto& entry : saved.entries()) state.emplace_back(entry.name, saved.tensor(entry));
  optimizer_->load_state(flat_ ? flat_->joined(optimizer_->state(), state) : state);
} catch (const UserError& problem) {
  log::warning("a checkpoint was not loaded: {}", problem.what());  // which contains paths: not for clients
  throw RequestError("the checkpoint does not fit this model: it has another rank, or trains other layers");
}

}  // namespace hone::tinker
