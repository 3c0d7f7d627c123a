#include "hone/train/methods/value_model.h"

#include "hone/base/log.h"
#include "hone/base/model_file.h"
#include "hone/model/decoder.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/train/distributed/parallelize_model.h"
#include "hone/train/load_model.h"
#include "hone/train/methods/compare_vocabularies.h"
#include "hone/train/methods/reward_model.h"

namespace hone::train {
namespace {

// A model that already outputs scores, or one that gets a new head.
model::ModelOverrides value_changes(const rl::ValueModelConfig& asked) {
  model::ModelOverrides changes;
  try {
    changes = reward_changes(asked.folder, asked.adapters);
  } catch (const UserError&) {
    log::info("{} has no scoring head: the value model begins with a new one", asked.folder.string());
    changes.config = model::classifier_changes(read_model_file(asked.folder / "config.json"), 1, "");
  }
  changes.head_seed = asked.seed;
  return changes;
}

// The critic reads exactly the tokens that the policy generated.
void require_same_tokens(const fs::path& folder, const text::Tokenizer& tokenizer) {
  const auto difference = vocabulary_difference(tokenizer, *text::Tokenizer::load(folder));
  if (!difference.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("the value model {} has another tokenizer than the policy, whose tokens it reads: {}",
                                folder.string(), difference),
                    "name a model of the policy's family with `value_model`, or leave it to a head on the policy: `value_model` "
                    "policy. A reward model may have another tokenizer: it gets text");
}

tuner::TunerConfig tuning_of(const TrainingJob& job, const std::optional<fs::path>& resumed, const DistributedContext& processes,
                             model::CausalLM& model) {
  auto tuning = job.tuner;
  if (model.config().experts.count == 0) {  // adapters of the policy's experts do not fit a dense critic
    const auto slots = model.tree().slots();
    std::erase_if(tuning.lora.target_parameters, [&](const std::string& name) {
      return std::ranges::none_of(slots, [&](const auto& slot) { return (slot.path + ".weight").ends_with(name); });
    });
  }
  tuning.share_base_storage = processes.splits_weights();
  tuning.adapters.clear();
  tuning.base_model = job.reinforcement->ppo->value_model.folder.string();
  tuning.peft_task = "SEQ_CLS";
  tuning.lora.modules_to_save.insert(tuning.lora.modules_to_save.end(), {"classifier", "score"});
  if (resumed) tuning.resumed = *resumed / kValueModel;
  return tuning;
}

bool has_value_model(const TrainingJob& job) {
  return job.reinforcement && job.reinforcement->ppo && !job.reinforcement->ppo->value_model.folder.empty();
}

}  // namespace

void probe_value_model(const TrainingJob& job, const text::Tokenizer& tokenizer) {
  if (has_value_model(job)) require_same_tokens(job.reinforcement->ppo->value_model.folder, tokenizer);
}

void load_value_model(const TrainingJob& job, const std::optional<fs::path>& resumed, const DistributedContext& processes,
                      SessionModels& models) {
  if (!has_value_model(job)) return;
  const auto& asked = job.reinforcement->ppo->value_model;
  auto options = load_options(job, processes);
  options.changes = value_changes(asked);
  auto model = model::CausalLM::load(asked.folder, options);
  for (const auto& adapter : asked.adapters) tuner::merge_adapter(*model, tuner::load_adapter(*model, adapter, {}));
  model::apply_activation_checkpointing(*model, job.activation_checkpointing, job.load.device, expected_row_length(job));
  auto tuned = tuner::apply_tuner(*model, tuning_of(job, resumed, processes, *model));
  switch_off_dropout(*model);
  model->set_training(true);
  models.add(parallelize_model(job, processes, kValueModel, std::move(model), std::move(tuned)));
}

CheckpointAssets value_model_assets(const TrainingJob& job, const LoadedModel& value_model) {
  const auto& asked = job.reinforcement->ppo->value_model;
  const auto type = value_model.model->dtype();
  CheckpointAssets assets{.model_folder = asked.folder,
                          .model_name = asked.folder.string(),
                          .tuner = "value model",
                          .adapter = value_model.tuned.adapter.has_value(),
                          .weights_type = type == at::kBFloat16 ? "bfloat16"
                                          : type == at::kHalf   ? "float16"
                                                                : "float32",
                          .layout = job.trainer.layout,
                          .args = nullptr,
                          .additional = nullptr,
                          .config_changes = value_changes(asked).config,
                          .new_tokens = {},
                          .tokenizer = nullptr};
  return assets;
}

}  // namespace hone::train
