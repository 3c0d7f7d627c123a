#include "hone/train/methods/reward_model.h"

#include <utility>

#include "hone/base/model_file.h"
#include "hone/data/encode/pooling_rows.h"
#include "hone/io/peft.h"
#include "hone/io/value_head.h"
#include "hone/model/decoder.h"
#include "hone/model/pooling.h"
#include "hone/train/losses/reward.h"
#include "hone/tuner/adapter.h"

namespace hone::train {
namespace {

bool brings_scores(const std::filesystem::path& adapter) {
  return io::adapter_files_in(adapter) && io::read_adapter_config(adapter).task_type == "SEQ_CLS";
}

std::unique_ptr<model::CausalLM> load_reward_model(const RewardModelConfig& config) {
  auto options = config.load;
  auto needed = reward_changes(config.folder, config.adapters);
  options.changes.config.update(needed.config);
  options.changes.value_head = needed.value_head;
  auto model = model::CausalLM::load(config.folder, options);
  for (const auto& adapter : config.adapters) {
    auto attached = tuner::load_adapter(*model, adapter, {});
    if (!options.changes.compression) tuner::merge_adapter(*model, attached);
  }
  if (!model->decoder().value_head && model->config().num_labels != 1)
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: outputs {} scores; a reward model outputs one",
                                                          config.folder.string(), model->config().num_labels));
  for (const auto& parameter : model->parameters()) parameter.value->requires_grad_(false);
  model->set_training(false);
  return model;
}

}  // namespace

model::ModelOverrides reward_changes(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& adapters) {
  model::ModelOverrides changes;
  if (const auto& newest = adapters.empty() ? folder : adapters.back(); io::holds_value_head(newest)) {
    changes.value_head = newest;
    return changes;
  }
  if (model::read_config(folder).num_labels > 0) return changes;
  if (std::ranges::none_of(adapters, brings_scores))
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: has no scoring head", (adapters.empty() ? folder : adapters.back()).string()),
                    "a reward model is what a run with `stage` rm writes");
  changes.config = model::classifier_changes(read_model_file(folder / "config.json"), 1, "");
  return changes;
}

RewardModel::RewardModel(const RewardModelConfig& config)
    : model_(load_reward_model(config)),
      encoder_(
          data::Encoder::make(config.encode, text::Tokenizer::load(config.folder), data::read_model_identity(config.folder))),
      tokens_at_once_(config.tokens_at_once) {}

std::vector<double> RewardModel::score(const std::vector<std::vector<text::TokenId>>& texts) const {
  at::NoGradGuard no_grad;
  std::vector<double> scores;
  for (size_t begin = 0; begin < texts.size();) {
    std::vector<std::vector<text::TokenId>> some;
    for (int64_t tokens = 0;
         begin < texts.size() && (some.empty() || tokens + static_cast<int64_t>(texts[begin].size()) <= tokens_at_once_);
         ++begin) {
      some.push_back(texts[begin]);
      tokens += static_cast<int64_t>(texts[begin].size());
    }
    auto found = text_scores(*model_, model::pool_last_token(*model_, model::packed_texts(some, model_->device())))
                     .to(at::kCPU, at::kDouble)
                     .contiguous();
    scores.insert(scores.end(), found.const_data_ptr<double>(), found.const_data_ptr<double>() + found.numel());
  }
  return scores;
}

std::vector<double> RewardModel::score(std::vector<data::Conversation> conversations) const {
  std::vector<std::vector<text::TokenId>> texts;
  for (auto& conversation : conversations) {
    const auto file = std::exchange(conversation.origin.file, {});  // a completion must not name files that are read
    auto text = data::encode_pooling_tokens(*encoder_, conversation);
    if (!text) throw UserError(ExitCode::bad_data, file + text.error());  // the error begins with ":line"
    texts.push_back(std::move(text->ids));
  }
  return score(texts);
}

}  // namespace hone::train
