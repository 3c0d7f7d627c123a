#include "hone/train/methods/reference.h"

#include "hone/base/error.h"
#include "hone/train/distributed/parallelize_model.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/load_model.h"
#include "hone/tuner/multi_adapter.h"

namespace hone::train {
namespace {

constexpr const char* kReferenceAdapter = "ref_adapter";  // ms-swift's name

class TrainedModel final : public Reference {
 public:
  void with_reference(model::CausalLM& trained, const std::function<void(model::CausalLM&)>& work) override {
    EvaluationMode mode(trained);
    work(trained);
  }
  bool is_trained_model() const override { return true; }
};

// The base model under the adapter being trained, or with another, frozen adapter.
class AdapterDisabledReference final : public Reference {
 public:
  AdapterDisabledReference(std::string trained, std::vector<std::string> instead, std::vector<tuner::SavedModule> whole)
      : trained_(std::move(trained)), instead_(std::move(instead)), whole_(std::move(whole)) {}

  void with_reference(model::CausalLM& trained, const std::function<void(model::CausalLM&)>& work) override {
    EvaluationMode mode(trained);
    exchange(trained, instead_);
    try {
      work(trained);
    } catch (...) {
      exchange(trained, {trained_});
      throw;
    }
    exchange(trained, {trained_});
  }

 private:
  // Fully trained modules of an adapter (modules_to_save) are swapped with the original weights.
  void exchange(model::CausalLM& model, const std::vector<std::string>& active) {
    tuner::set_active(model, active);
    for (auto& parameter : whole_) std::swap(*parameter.value, parameter.base);
  }

  std::string trained_;
  std::vector<std::string> instead_;
  std::vector<tuner::SavedModule> whole_;
};

// A separate frozen model.
class SeparateReference final : public Reference {
 public:
  explicit SeparateReference(LoadedModel& model) : model_(model) {}

  void with_reference(model::CausalLM&, const std::function<void(model::CausalLM&)>& work) override { model_.run_frozen(work); }

  void follow(model::CausalLM& trained, double alpha) override {
    at::NoGradGuard no_grad;
    const auto own = model_.model->parameters(), others = trained.parameters();
    HONE_CHECK(own.size() == others.size(), "the reference has {} weights, the model {}", own.size(), others.size());
    for (size_t i = 0; i < own.size(); ++i) {
      HONE_CHECK(own[i].name == others[i].name, "the reference's {} is the model's {}", own[i].name, others[i].name);
      own[i].value->mul_(1 - alpha).add_(others[i].value->to(own[i].value->options()), alpha);
    }
  }

 private:
  LoadedModel& model_;
};

// Whether the reference can be the base model under the adapter being trained. An initialization that subtracts from the base
// changes it, a reference adapter may change base weights, and sharded parameters cannot be swapped.
bool fits_beneath(const TrainingJob& job, const DistributedContext& processes, const tuner::Tuned& tuned) {
  const auto& asked = job.preference.reference;
  if (!asked.folder.empty() || !tuned.adapter || !tuned.adapter->initial.empty()) return false;
  if (!asked.adapters.empty() && !tuner::multi_adapter_conflict(asked.adapters.front()).empty()) return false;
  const bool in_parts = (processes.shards_model() && job.parallel.sharding.stage == 3) || processes.tensor || processes.stages;
  return tuned.adapter->modules_to_save.empty() || !in_parts;
}

std::unique_ptr<model::CausalLM> load_second(const TrainingJob& job, const text::Tokenizer& tokenizer,
                                             const DistributedContext& processes) {
  auto options = load_options(job, processes);
  if (job.resize_embeddings) options.changes.vocabulary = job.resize_embeddings(tokenizer);
  const auto& asked = job.preference.reference;
  if (!asked.folder.empty() && job.trainer.layout == Layout::factory)
    options.changes.compression.reset();  // which has its own quantization
  if (asked.bits)
    options.changes.compression =
        ops::WeightQuantization{.code = asked.bits == 8 ? ops::QuantType::int8 : ops::QuantType::nf4, .double_quant = true};
  if (asked.folder.empty() && job.from_scratch)
    return model::CausalLM::random(model::read_config(job.model_folder, options.changes.config), job.trainer.seed, options);
  auto model = model::CausalLM::load(asked.folder.empty() ? job.model_folder : asked.folder, options);
  for (const auto& adapter : asked.adapters) {
    auto attached = tuner::load_adapter(*model, adapter, {});
    if (!options.changes.compression) tuner::merge_adapter(*model, attached);
  }
  return model;
}

}  // namespace

std::unique_ptr<Reference> base_as_reference(const tuner::Tuned& tuned) {
  return std::make_unique<AdapterDisabledReference>(tuned.adapter->name, std::vector<std::string>(),
                                                    tuned.adapter->modules_to_save);
}

std::unique_ptr<Reference> model_as_reference(LoadedModel& model) { return std::make_unique<SeparateReference>(model); }

std::unique_ptr<Reference> policy_as_reference() { return std::make_unique<TrainedModel>(); }

std::unique_ptr<Reference> make_reference(const TrainingJob& job, const text::Tokenizer& tokenizer,
                                          const DistributedContext& processes, model::CausalLM& model, const tuner::Tuned& tuned,
                                          SessionModels& models) {
  const auto& asked = job.preference.reference;
  if (!asked.needed) return nullptr;
  if (!job.do_train && asked.folder.empty() && !tuned.adapter) return policy_as_reference();
  if (!fits_beneath(job, processes, tuned)) {
    auto second = load_second(job, tokenizer, processes);
    limit_experts(*second, job.expert_capacity);
    return model_as_reference(models.add(freeze_model(job, processes, kReferenceModel, std::move(second))));
  }
  std::vector<std::string> instead;
  if (!asked.adapters.empty()) {
    tuner::load_adapter(model, asked.adapters.front(), {.name = kReferenceAdapter});
    tuner::set_active(model, {tuned.adapter->name});
    instead = {kReferenceAdapter};
  }
  return std::make_unique<AdapterDisabledReference>(tuned.adapter->name, std::move(instead), tuned.adapter->modules_to_save);
}

}  // namespace hone::train
