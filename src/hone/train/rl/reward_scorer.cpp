#include "hone/train/rl/reward_scorer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <utility>

#include "hone/base/error.h"
#include "hone/train/rl/gather.h"
#include "hone/train/rl/rewards/model_reward.h"
#include "hone/train/rl/run_together.h"

namespace hone::train::rl {
namespace {

// Sums and deviations of such rewards still fit float32, in which metrics and advantages are reduced.
constexpr double kLargestReward = 1e30;

void require_moderate(double score, const std::string& name, const RewardInput& input) {
  if (std::isnan(score) || std::abs(score) <= kLargestReward) return;
  throw UserError(ExitCode::failure,
                  fmt::format("the reward {} of a completion for {} is {:g}", name, input.question->origin.str(), score),
                  "expected a number between -1e30 and 1e30: scale the reward, or limit it");
}

}  // namespace

RewardScorer::RewardScorer(const ReinforcementConfig& config, ScorerDeps deps)
    : deps_(std::move(deps)), rewards_(make_rewards(config.rewards)) {
  for (const auto& model : config.reward_models) rewards_.push_back(make_model_reward(model));
  if (config.turns && config.turns->gym_reward) rewards_.push_back(make_gym_reward());
  for (const auto& reward : rewards_) names_.push_back(reward->name());
}

void RewardScorer::set_progress(const TrainingProgress& progress) {
  for (const auto& reward : rewards_) reward->set_progress(progress);
  if (std::exchange(step_, progress.global_step) != progress.global_step) requests_ = 0;
}

// The step makes ids unique in a resumed run as well. Completions of one prompt are next to each other, and an environment may
// have written each its own.
void RewardScorer::name_request(std::vector<RewardInput>& inputs, bool again) {
  auto& last = inputs.back();
  const auto number = fmt::format("{}-{}-{}", step_, deps_.processes.rank(), ++requests_);
  last.request_id = "request-" + number;
  last.prompt_id = again ? inputs[inputs.size() - 2].prompt_id : "prompt-" + number;
}

std::vector<double> RewardScorer::own_scores(const std::vector<RolloutSample>& own) {
  std::vector<RewardInput> inputs;
  std::deque<data::Conversation> questions;  // with the media of turns
  const bool rendered = std::ranges::any_of(rewards_, [](const auto& reward) { return reward->reads_rendered(); });
  for (const auto& sample : own) {
    const auto& [prompt, completion, turns, earlier, group] = sample;
    const bool again = !inputs.empty() && own[inputs.size() - 1].group == group;
    if (!turns.sources.empty()) questions.push_back(question_of(sample));
    inputs.push_back(
        {turns.sources.empty() ? &prompt->question : &questions.back(), completion.text, trained_tokens(completion), {}});
    name_request(inputs, again);
    inputs.back().truncated = completion.truncated;
    inputs.back().turns = turns.count;
    inputs.back().token_ids = generated_turns(completion);
    for (const auto& round : earlier) inputs.back().rounds.push_back(conversation_of(round));
    if (!turns.before.empty()) inputs.back().dialog = &turns.before, inputs.back().infos = &turns.infos;
    if (rendered) inputs.back().rendered = deps_.tokenizer->decode(prompt->ids) + deps_.tokenizer->decode(completion.tokens);
  }
  std::vector<double> flat(own.size() * rewards_.size());
  for (size_t r = 0; r < rewards_.size(); ++r) {
    auto scores = rewards_[r]->score(inputs);
    HONE_CHECK(scores.size() == own.size(), "a reward without a value for some completions");
    for (size_t i = 0; i < scores.size(); ++i) {
      require_moderate(scores[i], names_[r], inputs[i]);
      flat[i * rewards_.size() + r] = scores[i];
    }
  }
  return flat;
}

// Rewards may be expensive and need not be deterministic: each peer computes those of a part.
std::vector<double> RewardScorer::peer_scores(const std::vector<RolloutSample>& own) {
  if (!deps_.peers) return own_scores(own);
  const PeerPart part(*deps_.peers, own.size());
  return own_scores({own.begin() + static_cast<ptrdiff_t>(part.begin), own.begin() + static_cast<ptrdiff_t>(part.end)});
}

// The results of all peers, in the order of the samples.
std::vector<double> RewardScorer::all_peers(const std::vector<double>& part) const {
  if (!deps_.peers) return part;
  std::vector<double> all;
  for (const auto& bytes : deps_.peers->gather_text({reinterpret_cast<const char*>(part.data()), part.size() * sizeof(double)})) {
    const auto before = all.size();
    all.resize(before + bytes.size() / sizeof(double));
    std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

// If a reward fails on one process, all stop before they wait for each other.
RewardTable RewardScorer::score(const std::vector<RolloutSample>& own) {
  std::vector<double> flat;
  run_together(deps_.strategy, "a reward", [&] { flat = peer_scores(own); });
  flat = gather(all_peers(flat), deps_.strategy);
  if (rewards_.empty()) return RewardTable(own.size() * static_cast<size_t>(deps_.strategy.size()));  // a teacher suffices
  RewardTable table;
  for (size_t begin = 0; begin < flat.size(); begin += rewards_.size())
    table.emplace_back(flat.begin() + static_cast<ptrdiff_t>(begin),
                       flat.begin() + static_cast<ptrdiff_t>(begin + rewards_.size()));
  return table;
}

}  // namespace hone::train::rl
