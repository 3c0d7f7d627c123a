#include "hone/train/session_files.h"

#include "hone/base/model_file.h"
#include "hone/model/expansion.h"
#include "hone/model/families/text_config.h"
#include "hone/train/checkpoints/weight_files.h"
#include "hone/train/methods/value_model.h"
#include "hone/train/reports/run_facts.h"
#include "hone/tuner/trained_files.h"

namespace hone::train {
namespace {

CheckpointAssets checkpoint_assets(const TrainingJob& job, const RunSetup& setup, const LoadedModel& loaded) {
  CheckpointAssets assets{.model_folder = job.model_folder,
                          .model_name = job.model_name.empty() ? job.model_folder.string() : job.model_name,
                          .tuner = tuner_name(job.tuner),
                          .adapter = job.tuner.kind == tuner::TunerType::adapter,
                          .weights_type = type_name(loaded.model->dtype()),
                          .layout = job.trainer.layout,
                          .args = job.args,
                          .additional = nullptr,
                          .config_changes = job.load.changes.config,
                          .new_tokens = job.new_tokens,
                          .tokenizer = setup.tokenizer};
  auto config = read_model_file(job.model_folder / "config.json");
  config.update(assets.config_changes);
  Json text_changes{{"vocab_size", loaded.model->config().vocab_size}};
  if (auto stride = job.load.changes.block_stride)
    text_changes.update(model::expanded_config(model::text_config_of(config), stride));
  assets.config_changes.update(model::nested_text_changes(config, text_changes));
  if (job.tuner.method == "LORA" && job.tuner.kind == tuner::TunerType::adapter && job.trainer.layout == Layout::swift)
    assets.additional = {{"lora_dtype", job.tuner.lora.dtype ? Json(type_name(*job.tuner.lora.dtype)) : Json(nullptr)},
                         {"lorap_lr_ratio", job.groups.loraplus_ratio ? Json(*job.groups.loraplus_ratio) : Json(nullptr)},
                         {"lorap_emb_lr", job.groups.loraplus_embedding_rate}};
  return assets;
}

WeightFiles session_weights(const TrainingJob& job, const DistributedContext& processes, const SessionModels& models,
                            const CheckpointAssets& policy_assets, const CheckpointAssets& value_assets) {
  auto weights = weight_files(job, processes, models.policy(), policy_assets);
  if (auto* value_model = models.find(kValueModel))
    weights = with_second_model(job, weights, weight_files(job, processes, *value_model, value_assets), *value_model);
  if (auto* reference = models.find(kReferenceModel); reference && job.preference.reference.sync) {
    auto files = weight_files(job, processes, *reference, policy_assets);
    files.copy = nullptr;                        // written before training continues
    files.save_assets = [](const fs::path&) {};  // a resumed run needs only tensors
    files.load = [reference](const fs::path& folder) {
      tuner::Tuned moved;  // nothing of it trains, but all of it changes
      for (const auto& parameter : reference->model->parameters()) moved.trainable.push_back({parameter.name, *parameter.value});
      auto* tensor = reference->tensor.get();
      const auto shapes = tensor ? std::make_unique<parallel::UnshardedShapes>(*tensor) : nullptr;
      const auto fill = [tensor](const Tensor& parameter, const Tensor& values) { tensor->fill(parameter, values); };
      tuner::load_trained(*reference->model, moved, folder, tensor ? tuner::CopyWeight(fill) : tuner::CopyWeight());
    };
    weights = with_second_model(job, weights, files, *reference);
  }
  return weights;
}

CheckpointAssets assets_of_value_model(const TrainingJob& job, const SessionModels& models) {
  const auto* value_model = models.find(kValueModel);
  return value_model ? value_model_assets(job, *value_model) : CheckpointAssets();
}

}  // namespace

SessionFiles::SessionFiles(const TrainingJob& job, const DistributedContext& processes, const RunSetup& setup,
                           const SessionModels& models)
    : policy_assets(checkpoint_assets(job, setup, models.policy())),
      value_assets(assets_of_value_model(job, models)),
      policy(weight_files(job, processes, models.policy(), policy_assets)),
      all(session_weights(job, processes, models, policy_assets, value_assets)) {}

}  // namespace hone::train
