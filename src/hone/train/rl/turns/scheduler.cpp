#include "hone/train/rl/turns/scheduler.h"

#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {
namespace {

constexpr std::string_view kDoubt = "But wait... It seems I made a mistake,";

// ms-swift's math_tip_trick: a wrong completion is cut at the end of its reasoning and continues with a hint, once.
class MathTips final : public TurnScheduler {
 public:
  std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) override {
    std::vector<RewardInput> answers;
    for (const auto& turn : turns) answers.push_back({turn.question, turn.messages->back().content, 0, {}});
    const auto right = accuracy_->score(answers);
    std::vector<NextTurn> next(turns.size());
    for (size_t i = 0; i < turns.size(); ++i) {
      const auto& turn = turns[i];
      const bool doubted = answers[i].text.find(kDoubt) != std::string::npos;
      if (turn.truncated || turn.last || doubted || right[i] == 1) continue;
      next[i] = {.done = false,
                 .keep = std::min({turn.text.size(), turn.text.find("<answer>"), turn.text.find("</think>")}),
                 .continued = std::string(kDoubt)};
    }
    return next;
  }

 private:
  std::unique_ptr<Reward> accuracy_ = make_accuracy_reward();
};

}  // namespace

std::unique_ptr<TurnScheduler> make_math_tips() { return std::make_unique<MathTips>(); }

std::unique_ptr<TurnScheduler> make_scheduler(const TurnConfig& config) {
  if (config.scheduler == "hermes_tools") return make_hermes_tools(config.tools);
  if (config.scheduler == "react_tools") return make_react_tools(config.tools);
  if (config.scheduler == "math_tip_trick") return make_math_tips();
  if (config.scheduler == "thinking_tips_scheduler")
    throw UserError(ExitCode::usage, fmt::format("the scheduler {} is not in this version", config.scheduler),
                    "use math_tip_trick, which doubts an answer within one sequence");
  if (!config.plugins.files.empty() || config.scheduler == "openenv_scheduler") return make_plugin_scheduler(config);
  throw UserError(ExitCode::usage, fmt::format("there is no scheduler called {}", config.scheduler),
                  "expected hermes_tools, react_tools, math_tip_trick, openenv_scheduler, or a name that a file of "
                  "`external_plugins` registers "
                  "(docs/agents.md)");
}

}  // namespace hone::train::rl
