// A reward model that scores texts: for RL and for inference commands. Its folder, or the last adapter's, determines its kind:
// LLaMA-Factory's with a value head, a classifier with one class, or Qwen's reward models with a head of two layers: of the full
// text (Qwen2ForRewardModel), or of its steps (Qwen2ForProcessRewardModel), whose lowest probability to be right is the score.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/data/batches/collator.h"
#include "hone/data/conversation.h"
#include "hone/data/encode/encoder.h"
#include "hone/engine/sampling_params.h"
#include "hone/model/causal_lm.h"

namespace hone::train {

struct RewardModelConfig {
  std::filesystem::path folder;
  std::vector<std::filesystem::path> adapters;
  model::LoadOptions load;    // type and device
  data::EncodeConfig encode;  // how conversations become texts
  int64_t tokens_at_once = 16384;
  std::optional<engine::SamplingParams> generates = {};  // a chat model that writes its score (genrm), with these settings
};

// The head of Qwen's reward models: two layers with a ReLU in between.
struct ScoreLayers {
  Tensor weight_0, bias_0, weight_2, bias_2;
  Tensor logits(const Tensor& states_sh) const;  // float32 [S, labels]
};

class RewardModel {
 public:
  // Throws UserError(bad_checkpoint) for a folder with none of them.
  explicit RewardModel(const RewardModelConfig& config);

  // Scores in order, without gradients: of token ids with the template's additions, or of full conversations with their media.
  std::vector<double> score(const std::vector<std::vector<text::TokenId>>& texts) const;
  std::vector<double> score(std::vector<data::Conversation> conversations) const;

  const data::Encoder& encoder() const { return *encoder_; }
  model::CausalLM& model() const { return *model_; }

 private:
  std::vector<double> scores_of(const std::vector<std::vector<text::TokenId>>& texts) const;  // that fit in one pass
  std::vector<double> scores_of(const data::SamplePack& samples) const;  // the same, whose media are decoded here
  std::vector<double> media_scores(data::SamplePack samples) const;
  std::vector<double> step_scores(const std::vector<std::vector<text::TokenId>>& texts) const;

  std::string name_;  // of its folder
  std::unique_ptr<model::CausalLM> model_;
  std::optional<ScoreLayers> layers_;  // of Qwen's reward models
  std::shared_ptr<const data::Encoder> encoder_;
  std::optional<text::TokenId> step_token_;  // of a process reward model, at the end of each step
  int64_t tokens_at_once_;
};

// Changes to the model of a folder for loading it as a reward model; none if it is already a classifier.
model::ModelOverrides reward_changes(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& adapters);

}  // namespace hone::train
