#include "hone/cli/configs/training/reward_config.h"

#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/data_config.h"
#include "hone/hub/locate.h"
#include "hone/model/config.h"

namespace hone::cli {
namespace {

// LLaMA-Factory's reward models are language models with a head of values, which the newest adapter or the model's folder brings.
void add_value_head_to(const ModelArguments& args, train::TrainingJob& job) {
  auto adapters = *args.adapters;
  job.load.changes.value_head = adapters.empty() ? job.model_folder : hub::locate_model(adapters.back());
  job.load.changes.head_seed = static_cast<uint64_t>(*args.seed);
  // What gives tokens takes no part in a value.
  if (job.tuner.kind == tuner::TunerType::full &&
      !model::read_config(job.model_folder, job.load.changes.config).tie_word_embeddings)
    job.tuner.parameters.freeze.push_back("lm_head");
}

}  // namespace

void read_reward(const Options& options, train::TrainingJob& job) {
  const PreferenceArguments args(options);
  job.loader.pairs = job.eval_loader.pairs = true;
  job.loader.margins = job.eval_loader.margins = true;
  if (uses_factory_dialect(options)) return add_value_head_to(ModelArguments(options), job);
  if (args.center_rewards_coefficient.has_value()) job.preference.center_rewards_coefficient = *args.center_rewards_coefficient;
}

void read_feedback(const Options& options, train::TrainingJob& job) {
  const DataArguments data_args(options);
  const PreferenceArguments preference_args(options);
  auto& config = job.preference;
  const bool factory = uses_factory_dialect(options);
  config.beta = *preference_args.beta;
  config.desirable_weight = *preference_args.desirable_weight;
  config.undesirable_weight = *preference_args.undesirable_weight;
  if (factory) config.rpo_alpha = *preference_args.rpo_alpha;
  config.estimates_kl = factory || preference_args.loss_type->front() == "kto";
  job.loader.feedback = {
      .with_kl_pairs = config.estimates_kl, .block = factory ? *data_args.preprocessing_batch_size : 0, .in_file_order = factory};
  job.eval_loader.feedback = job.loader.feedback;
  job.encode.train_last_turn_only = factory;
}

}  // namespace hone::cli
