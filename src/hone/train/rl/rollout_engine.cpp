#include "hone/train/rl/rollout_engine.h"

#include "hone/base/log.h"

namespace hone::train::rl {

WholeModel::~WholeModel() {
  try {
    group_.keep_gathered(false);
  } catch (const std::exception& problem) {
    log::debug("{}", problem.what());  // the other processes are gone: the next collective says so
  }
}

std::unique_ptr<RolloutEngine> RolloutEngine::detach(int64_t, std::function<bool()>) {
  HONE_CHECK(false, "completions are generated ahead on servers alone");
  return nullptr;
}

engine::SamplingParams rollout_sampling(engine::SamplingParams sampling, const data::Encoder& encoder) {
  sampling.eos_token_ids = encoder.stop_ids();
  for (const auto& word : encoder.stop_words()) sampling.stop.push_back(word);
  return sampling;
}

std::unique_ptr<RolloutEngine> make_rollout_engine(const RolloutEngineDeps& deps, const RolloutEngineConfig& config) {
  return config.servers ? make_server_engine(deps, config) : make_local_engine(deps, config);
}

}  // namespace hone::train::rl
