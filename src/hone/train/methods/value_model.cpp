#include "hone/train/methods/value_model.h"

#include <unordered_map>

#include "hone/base/log.h"
#include "hone/model/decoder.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/train/methods/compare_vocabularies.h"
#include "hone/train/methods/reward_model.h"

namespace hone::train {
namespace {

constexpr const char* kNamesBegin = "value_model.";

// A model that gives scores already, or one that gets a new head.
model::ModelOverrides value_changes(const rl::ValueModelConfig& asked) {
  model::ModelOverrides changes;
  try {
    changes = reward_changes(asked.folder, asked.adapters);
  } catch (const UserError&) {
    log::info("{} has no scoring head: the value model begins with a new one", asked.folder.string());
    changes.config = model::classifier_changes(read_config_file((asked.folder / "config.json").string()), 1, "");
  }
  changes.head_seed = asked.seed;
  return changes;
}

// The critic reads the very tokens that the policy wrote.
void require_same_tokens(const fs::path& folder, const text::Tokenizer& tokenizer) {
  const auto difference = vocabulary_difference(tokenizer, *text::Tokenizer::load(folder));
  if (!difference.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("the value model {} has another tokenizer than the policy, whose tokens it reads: {}",
                                folder.string(), difference),
                    "name a model of the policy's family with --value_model, or leave it to a head on the policy: --value_model "
                    "policy. A reward model may have a tokenizer of its own: it is given text");
}

void stop_dropping(model::CausalLM& model) {
  for (const auto& slot : model.tree().slots())
    for (auto& adapter : *slot.adapters) adapter.dropout = 0;
}

tuner::TunerConfig tuning_of(const TrainingJob& job, const std::optional<fs::path>& resumed,
                             const DistributedContext& processes) {
  auto tuning = job.tuner;
  tuning.share_base_storage = processes.shards_model();
  tuning.adapters.clear();
  tuning.base_model = job.reinforcement->ppo->value_model.folder.string();
  tuning.peft_task = "SEQ_CLS";
  tuning.lora.modules_to_save.insert(tuning.lora.modules_to_save.end(), {"classifier", "score"});
  if (resumed) tuning.resumed = *resumed / kValueModelFolder;
  return tuning;
}

Tensor host_copy(const Tensor& tensor) { return tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true); }

}  // namespace

std::unique_ptr<LoadedModel> load_value_model(const TrainingJob& job, const std::optional<fs::path>& resumed,
                                              const text::Tokenizer& tokenizer, const DistributedContext& processes) {
  if (!job.reinforcement || !job.reinforcement->ppo || job.reinforcement->ppo->value_model.folder.empty()) return nullptr;
  const auto& asked = job.reinforcement->ppo->value_model;
  require_same_tokens(asked.folder, tokenizer);
  auto options = job.load;
  options.changes = value_changes(asked);
  auto model = model::CausalLM::load(asked.folder, options);
  for (const auto& adapter : asked.adapters) tuner::merge_adapter(*model, tuner::load_adapter(*model, adapter, {}));
  model::apply_activation_checkpointing(*model, job.gradient_checkpointing ? job.recompute : model::Recompute::none,
                                        job.recomputed_blocks, /*offload=*/false);
  auto tuned = tuner::apply_tuner(*model, tuning_of(job, resumed, processes));
  stop_dropping(*model);
  model->set_training(true);
  return std::make_unique<LoadedModel>(shard_model(job, processes, std::move(model), std::move(tuned)));
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

// Weights in shards are brought together one model at a time: the critic's wait on the first process while the policy's are
// written.
WeightFiles with_value_model(WeightFiles policy, WeightFiles value_model, LoadedModel& loaded, bool main) {
  using Copies = std::unordered_map<const void*, Tensor>;
  auto copies = std::make_shared<Copies>();
  auto* critic = loaded.value_model.get();
  WeightFiles both;
  both.save = [policy, value_model, copies, critic](const fs::path& folder) {
    policy.save(folder);
    fs::create_directories(folder / kValueModelFolder);
    if (copies->empty()) return value_model.save(folder / kValueModelFolder);
    tuner::save_trained(*critic->model, critic->tuned, folder / kValueModelFolder, 5'000'000'000,
                        [copies](const Tensor& parameter) { return copies->at(parameter.unsafeGetTensorImpl()); });
  };
  both.load = [policy, value_model](const fs::path& folder) {
    policy.load(folder);
    if (!fs::is_directory(folder / kValueModelFolder))
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{} holds no value model", folder.string()),
                      "continue a run whose value model was a model of its own, or begin a new one with --adapters or --model");
    value_model.load(folder / kValueModelFolder);
  };
  both.save_assets = [policy, value_model](const fs::path& folder) {
    policy.save_assets(folder);
    fs::create_directories(folder / kValueModelFolder);
    value_model.save_assets(folder / kValueModelFolder);
  };
  if (policy.copy && value_model.copy)
    both.copy = [policy, value_model]() -> std::function<void(const fs::path&)> {
      return [first = policy.copy(), second = value_model.copy()](const fs::path& folder) {
        first(folder);
        fs::create_directories(folder / kValueModelFolder);
        second(folder / kValueModelFolder);
      };
    };
  if (!policy.gather) return both;
  both.gather = [policy, copies, critic, main](const std::function<void()>& write) {
    auto& sharded = *critic->sharded;
    sharded.wait_for_sync();
    const bool adapter = critic->tuned.adapter.has_value(), apart = parallel::GatheredParameters::is_needed(sharded);
    if (adapter) sharded.gather_trained();
    if (!adapter && apart && main) {
      parallel::GatheredParameters lender(sharded);
      for (const auto& parameter : critic->model->parameters())
        (*copies)[parameter.value->unsafeGetTensorImpl()] = host_copy(lender(*parameter.value));
    } else if (!adapter && apart) {
      parallel::GatheredParameters::participate(sharded);
    }
    policy.gather(write);
    copies->clear();
    if (adapter) sharded.release_trained();
  };
  return both;
}

std::vector<optim::ParameterGroup> trained_groups(const TrainingJob& job, const LoadedModel& loaded) {
  const auto groups_of = [&](const LoadedModel& model, const std::string& prefix) {
    auto trainable = model.tuned.trainable;
    for (auto& [name, tensor] : trainable) name = prefix + name;
    auto groups = optim::make_param_groups(trainable, job.groups);
    return model.sharded ? shard_param_groups(groups, *model.sharded) : groups;
  };
  auto groups = groups_of(loaded, "");
  if (!loaded.value_model) return groups;
  for (auto& group : groups_of(*loaded.value_model, kNamesBegin)) groups.push_back(std::move(group));
  return groups;
}

}  // namespace hone::train
