// A reward model that scores texts: for RL and for inference commands. Its folder, or the last adapter's, determines its kind:
// LLaMA-Factory's with a value head, or a classifier with one class.
#pragma once
#include <memory>
#include <optional>
#include <vector>

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

class RewardModel {
 public:
  // Throws UserError(bad_checkpoint) for a folder with neither.
  explicit RewardModel(const RewardModelConfig& config);

  // Scores in order, without gradients: of token ids with the template's additions, or of full conversations.
  std::vector<double> score(const std::vector<std::vector<text::TokenId>>& texts) const;
  std::vector<double> score(std::vector<data::Conversation> conversations) const;

  const data::Encoder& encoder() const { return *encoder_; }
  model::CausalLM& model() const { return *model_; }

 private:
  std::unique_ptr<model::CausalLM> model_;
  std::shared_ptr<const data::Encoder> encoder_;
  int64_t tokens_at_once_;
};

// Changes to the model of a folder for loading it as a reward model; none if it is already a classifier.
model::ModelOverrides reward_changes(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& adapters);

}  // namespace hone::train
