#include "hone/train/rl/rollout_engine.h"

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/data/batches/image_batch.h"
#include "hone/engine/prompt_images.h"

namespace hone::train::rl {

data::MediaPlacement PromptMedia::placement() const { return {sources_, data::spans_of({context_.pictures, context_.sounds})}; }

std::shared_ptr<const engine::PromptImages> PromptMedia::decoded() const {
  std::call_once(decodes_, [this] { decoded_ = engine::PromptImages::of(data::prompt_batch_of(context_)); });
  return decoded_;
}

GatheredForGeneration::~GatheredForGeneration() {
  try {
    group_.keep_for_generation(false);
  } catch (const std::exception& problem) {
    log::debug("{}", problem.what());  // the other processes ended: the next collective reports it
  }
}

std::unique_ptr<RolloutEngine> RolloutEngine::detach(int64_t, std::function<bool()>) {
  HONE_CHECK(false, "completions are generated ahead on servers alone");
  return nullptr;
}

Json completion_json(const GeneratedCompletion& completion) {
  return {{"tokens", completion.tokens},
          {"text", completion.text},
          {"truncated", completion.truncated},
          {"logprobs", completion.logprobs},
          {"versions", completion.versions}};
}

GeneratedCompletion completion_of(const Json& json) {
  return {json.at("tokens").get<std::vector<text::TokenId>>(), json.at("text").get<std::string>(),
          json.at("truncated").get<bool>(), json.at("logprobs").get<std::vector<float>>(),
          json.at("versions").get<std::vector<int64_t>>()};
}

engine::SamplingParams rollout_sampling(engine::SamplingParams sampling, const data::Encoder& encoder) {
  sampling.eos_token_ids = encoder.stop_ids();
  for (const auto& word : encoder.stop_words()) sampling.stop.push_back(word);
  return sampling;
}

std::unique_ptr<RolloutEngine> make_rollout_engine(const RolloutEngineDeps& deps, const RolloutEngineConfig& config) {
  auto engine = config.servers ? make_server_engine(deps, config) : make_local_engine(deps, config);
  const auto* together = config.servers ? nullptr : deps.group.generation_group();
  return deps.peers ? make_peer_engine(std::move(engine), *deps.peers, together ? together->size() : 1) : std::move(engine);
}

}  // namespace hone::train::rl
