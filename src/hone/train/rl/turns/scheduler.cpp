#include "hone/train/rl/turns/scheduler.h"

#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {
namespace {

constexpr std::string_view kDoubt = "But wait... It seems I made a mistake,";
constexpr std::string_view kTip = "The answer is not correct, It seems You made a mistake, you need to recheck very carefully.";

// A wrong completion gets a tip, once.
class Tips final : public TurnScheduler {
 public:
  using WasGiven = bool (*)(const TurnInput&);
  using Give = NextTurn (*)(const TurnInput&);
  Tips(WasGiven was_given, Give give) : was_given_(was_given), give_(give) {}

  std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) override {
    std::vector<RewardInput> completions;
    for (const auto& turn : turns) completions.push_back({turn.question, turn.messages->back().content, 0, {}});
    const auto scores = accuracy_->score(completions);
    std::vector<NextTurn> next(turns.size());
    for (size_t i = 0; i < turns.size(); ++i)
      if (!turns[i].truncated && !turns[i].last && !was_given_(turns[i]) && scores[i] != 1) next[i] = give_(turns[i]);
    return next;
  }

 private:
  WasGiven was_given_;
  Give give_;
  std::unique_ptr<Reward> accuracy_ = make_accuracy_reward();
};

bool was_doubted(const TurnInput& turn) { return turn.messages->back().content.find(kDoubt) != std::string::npos; }
NextTurn doubt(const TurnInput& turn) {
  return {.done = false,
          .keep = std::min({turn.text.size(), turn.text.find("<answer>"), turn.text.find("</think>")}),
          .continued = std::string(kDoubt)};
}

bool was_rejected(const TurnInput& turn) {
  const auto& messages = *turn.messages;
  return messages.size() > 1 && messages[messages.size() - 2].content.find(kTip) != std::string::npos;
}
NextTurn reject(const TurnInput&) {
  return {.done = false, .replies = {{.role = "user", .content = std::string(kTip)}}, .splits = true};
}

}  // namespace

// The user rejects a wrong completion. Every round is a sequence of its own, so that its prompt is what a template with reasoning
// renders: without the reasoning of earlier rounds.
std::unique_ptr<TurnScheduler> make_thinking_tips() { return std::make_unique<Tips>(was_rejected, reject); }

// A wrong completion is cut at the end of its reasoning and continues with a hint.
std::unique_ptr<TurnScheduler> make_math_tips() { return std::make_unique<Tips>(was_doubted, doubt); }

std::unique_ptr<TurnScheduler> make_scheduler(const TurnConfig& config) {
  if (config.scheduler == "hermes_tools") return make_hermes_tools(config.tools);
  if (config.scheduler == "react_tools") return make_react_tools(config.tools);
  if (config.scheduler == "math_tip_trick") return make_math_tips();
  if (config.scheduler == "thinking_tips_scheduler") return make_thinking_tips();
  if (!config.plugins.files.empty() || config.scheduler == "openenv_scheduler") return make_plugin_scheduler(config);
  if (config.scheduler == "gym_scheduler")
    throw UserError(ExitCode::usage, "gym_scheduler has no environment",
                    "name the file that registers it with `external_plugins`: envs[\"name\"] = Class (docs/agents.md)");
  throw UserError(
      ExitCode::usage, fmt::format("there is no scheduler called {}", config.scheduler),
      "expected hermes_tools, react_tools, math_tip_trick, thinking_tips_scheduler, openenv_scheduler, or a name that "
      "a file of `external_plugins` registers (docs/agents.md)");
}

}  // namespace hone::train::rl
