// One tenant's LoRA on the shared base model: gradient accumulation, optimizer step, files. For the model's thread.
#pragma once
#include <filesystem>

#include "hone/model/causal_lm.h"
#include "hone/tinker/model/flat_factors.h"
#include "hone/tinker/model/pair_loss.h"
#include "hone/tinker/model/token_losses.h"
#include "hone/tinker/state/store.h"
#include "hone/tuner/tuner.h"

namespace hone::tinker {

struct AdamParams {
  double learning_rate = 1e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-12, weight_decay = 0, grad_clip_norm = 0, grad_scale = 1;
  // Both throw RequestError. `check` is for new requests only: a stored one may have succeeded under a version that checked less.
  static void check(const Json& json);
  static AdamParams from_json(const Json& json);
  bool same_state(const AdamParams& other) const;  // one optimizer serves both
};

class TrainingRun {
 public:
  TrainingRun(model::CausalLM& model, std::string name, const RunConfig& config, const std::string& base_model);
  ~TrainingRun();  // removes its adapter from the model
  TrainingRun(const TrainingRun&) = delete;

  const std::string& name() const { return name_; }  // of its adapter
  int64_t bytes() const { return bytes_; }           // of memory: weights, gradients and the optimizer's state
  // The same, before there is one.
  static int64_t bytes_of(model::CausalLM& model, const RunConfig& config);
  const std::vector<std::pair<std::string, Tensor>>& trainable() const { return tuned_.trainable; }
  bool shares_passes() const { return !trains_experts_ && dropout_ == 0; }  // with rows of other runs
  double dropout() const { return dropout_; }
  uint64_t seed() const { return seed_; }
  // A backward pass adds to them; `pairs` are those of its data, for the next step's metrics.
  void note_gradients(const PairMetrics& pairs = {});
  // Discards accumulated gradients of a window with a failed request.
  void invalidate_gradients() { spoiled_ = true; }
  bool has_gradients() const { return accumulated_ || spoiled_; }
  void clear_gradients();
  double grad_norm();
  Json optim_step(const AdamParams& params);

  void save_weights(const std::filesystem::path& folder) const;
  void save_optimizer(const std::filesystem::path& folder) const;
  // Throws RequestError if the checkpoint has another shape than this run.
  void load(const std::filesystem::path& folder, bool optimizer);

 private:
  void make_optimizer(const AdamParams& params);
  optim::ParameterGroup parameters(double weight_decay) const;

  model::CausalLM& model_;
  std::string name_;
  tuner::Tuned tuned_;
  std::optional<FlatFactors> flat_;  // of the trainable tensors, where it supports their device
  AdamParams params_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  int64_t bytes_ = 0;
  bool trains_experts_ = false;
  double dropout_;
  uint64_t seed_;
  PairMetrics pairs_;  // since the last step
  bool accumulated_ = false, spoiled_ = false;
};

// The linear layers selected by the protocol's flags, in addition to experts. Throws RequestError if nothing would train.
std::vector<std::string> lora_targets(model::CausalLM& model, const RunConfig& config);

}  // namespace hone::tinker
