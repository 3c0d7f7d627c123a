#include "hone/train/methods/reward_model.h"

#include <utility>

#include "hone/base/model_file.h"
#include "hone/data/batches/collator.h"
#include "hone/data/encode/pooling_rows.h"
#include "hone/io/peft.h"
#include "hone/io/value_head.h"
#include "hone/io/weight_folder.h"
#include "hone/model/decoder.h"
#include "hone/model/pooling.h"
#include "hone/train/losses/reward.h"
#include "hone/train/methods/forward_pass.h"
#include "hone/tuner/adapter.h"

namespace hone::train {
namespace {

bool brings_scores(const std::filesystem::path& adapter) {
  return io::adapter_files_in(adapter) && io::read_adapter_config(adapter).task_type == "SEQ_CLS";
}

constexpr std::string_view kOutcomeModel = "Qwen2ForRewardModel", kProcessModel = "Qwen2ForProcessRewardModel";
constexpr const char* kStepToken = "<extra_0>";

// The architecture of Qwen's reward models; empty for all others.
std::string qwen_reward_architecture(const std::filesystem::path& folder) {
  const auto config = read_model_file(folder / "config.json");
  const auto listed = config.is_object() ? config.value("architectures", Json()) : Json();
  const auto name = listed.is_array() && !listed.empty() && listed[0].is_string() ? listed[0].get<std::string>() : "";
  return name == kOutcomeModel || name == kProcessModel ? name : "";
}

std::optional<ScoreLayers> load_score_layers(const std::filesystem::path& folder, const model::CausalLM& model) {
  if (qwen_reward_architecture(folder).empty()) return std::nullopt;
  const io::WeightFolder weights(folder);
  auto read = [&](const char* name) {
    if (!weights.find(name))
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: {} is missing", folder.string(), name),
                      "fetch the folder again");
    return weights.tensor(name).to(model.device(), model.dtype());
  };
  return ScoreLayers{read("score.0.weight"), read("score.0.bias"), read("score.2.weight"), read("score.2.bias")};
}

std::optional<text::TokenId> find_step_token(const std::filesystem::path& folder, const text::Tokenizer& tokenizer) {
  if (qwen_reward_architecture(folder) != kProcessModel) return std::nullopt;
  if (const auto token = tokenizer.id_of(kStepToken)) return token;
  throw UserError(ExitCode::bad_checkpoint,
                  fmt::format("{}: the tokenizer has no {}, which ends a step", folder.string(), kStepToken),
                  "fetch the folder again");
}

// As in ms-swift, a response without marked steps is one step.
void end_last_step(std::vector<data::Message>& messages) {
  for (const auto& message : messages)
    if (message.content.find(kStepToken) != std::string::npos) return;
  if (!messages.empty()) messages.back().content += kStepToken;
}

std::unique_ptr<model::CausalLM> load_reward_model(const RewardModelConfig& config) {
  auto options = config.load;
  auto needed = reward_changes(config.folder, config.adapters);
  options.changes.config.update(needed.config);
  options.changes.value_head = needed.value_head;
  options.changes.has_own_score_layers = needed.has_own_score_layers;
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
  if (!qwen_reward_architecture(folder).empty()) {  // the classifier's own layer stays unused
    auto base = read_model_file(folder / "config.json");
    base["architectures"] = {"Qwen2ForCausalLM"};
    changes.config = model::classifier_changes(base, 1, "");
    changes.has_own_score_layers = true;
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

Tensor ScoreLayers::logits(const Tensor& states_sh) const {
  return at::linear(at::linear(states_sh, weight_0, bias_0).relu(), weight_2, bias_2).to(at::kFloat);
}

RewardModel::RewardModel(const RewardModelConfig& config)
    : name_(config.folder.filename().string()),
      model_(load_reward_model(config)),
      layers_(load_score_layers(config.folder, *model_)),
      encoder_(
          data::Encoder::make(config.encode, text::Tokenizer::load(config.folder), data::read_model_identity(config.folder))),
      step_token_(find_step_token(config.folder, encoder_->tokenizer())),
      tokens_at_once_(config.tokens_at_once) {}

// A step's score is the probability that it is right; the text's is that of its worst step.
std::vector<double> RewardModel::step_scores(const std::vector<std::vector<text::TokenId>>& texts) const {
  std::vector<int64_t> rows, steps;  // where steps end in the packed texts, and how many each text has
  for (int64_t begin = 0; const auto& text : texts) {
    const auto before = rows.size();
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] == *step_token_) rows.push_back(begin + static_cast<int64_t>(i));
    begin += static_cast<int64_t>(text.size());
    if (rows.size() == before) rows.push_back(begin - 1);
    steps.push_back(static_cast<int64_t>(rows.size() - before));
  }
  auto input = model::packed_texts(texts, model_->device());
  input.output_rows_r = at::tensor(rows, at::kLong).to(model_->device());
  const auto right = layers_->logits(model_->hidden_states(input)).softmax(1).select(1, 1).to(at::kCPU, at::kDouble);
  std::vector<double> scores;
  for (const auto& of_text : right.split_with_sizes(steps)) scores.push_back(of_text.min().item<double>());
  return scores;
}

std::vector<double> RewardModel::scores_of(const std::vector<std::vector<text::TokenId>>& texts) const {
  if (step_token_) return step_scores(texts);
  const auto states = model::pool_last_token(*model_, model::packed_texts(texts, model_->device()));
  const auto found =
      (layers_ ? layers_->logits(states).select(1, 0) : text_scores(*model_, states)).to(at::kCPU, at::kDouble).contiguous();
  return {found.const_data_ptr<double>(), found.const_data_ptr<double>() + found.numel()};
}

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
    const auto found = scores_of(some);
    scores.insert(scores.end(), found.begin(), found.end());
  }
  return scores;
}

std::vector<double> RewardModel::scores_of(const data::SamplePack& samples) const {
  const auto batch = data::collate(std::span(&samples, 1), data::PackMask::separate).to(model_->device());
  const auto states = model::pool_last_token(*model_, forward_input(batch));
  const auto found = text_scores(*model_, states).to(at::kCPU, at::kDouble).contiguous();
  return {found.const_data_ptr<double>(), found.const_data_ptr<double>() + found.numel()};
}

std::vector<double> RewardModel::media_scores(data::SamplePack samples) const {
  at::NoGradGuard no_grad;
  std::vector<double> scores;
  data::SamplePack some;
  int64_t tokens = 0;
  const auto score_some = [&] {
    const auto found = scores_of(some);
    scores.insert(scores.end(), found.begin(), found.end());
    some.clear(), tokens = 0;
  };
  for (auto& sample : samples) {
    const auto length = static_cast<int64_t>(sample.ids.size());
    if (!some.empty() && tokens + length > tokens_at_once_) score_some();
    tokens += length;
    some.push_back(std::move(sample));
  }
  if (!some.empty()) score_some();
  return scores;
}

std::vector<double> RewardModel::score(std::vector<data::Conversation> conversations) const {
  data::SamplePack samples;
  bool has_media = false;
  for (auto& conversation : conversations) {
    if (step_token_) end_last_step(conversation.messages);
    const auto file = std::exchange(conversation.origin.file, {});  // a completion must not name files that are read
    auto sample = data::encode_pooling_text(*encoder_, conversation);
    if (!sample)
      throw UserError(ExitCode::bad_data, file + sample.error(),  // the error begins with ":line"
                      fmt::format("{} reads this row as the reward model; choose one that fits the rows, or drop them", name_));
    has_media |= !sample->pictures.empty() || !sample->sounds.empty();
    samples.push_back(std::move(*sample));
  }
  if (has_media) return media_scores(std::move(samples));
  std::vector<std::vector<text::TokenId>> texts;
  for (auto& sample : samples) texts.push_back(std::move(sample.ids));
  return score(texts);
}

}  // namespace hone::train
