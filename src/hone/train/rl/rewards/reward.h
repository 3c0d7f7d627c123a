// Rewards score completions. One call scores a full rollout, so that slow reward servers get one request.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/data/conversation.h"
#include "hone/train/rl/rewards/plugin_worker.h"
#include "hone/train/rl/rewards/sandbox.h"

namespace hone::train::rl {

// One completion, as input of rewards.
struct RewardInput {
  const data::Conversation* question = nullptr;  // the messages before the completion; `extra` holds the row's other columns
  std::string text;
  int64_t tokens = 0;
  std::string rendered = {};                            // prompt and completion as rendered text, for rewards that read it
  const std::vector<data::Message>* dialog = nullptr;   // multi-turn: all messages before the last completion
  const Json* infos = nullptr;                          // … and the scheduler's data for rewards
  int64_t turns = 1;                                    // … and how many completions the model generated
  std::string request_id = {}, prompt_id = {};          // of the completion and of its prompt; empty: they have none
  bool truncated = false;                               // its length ended it
  std::vector<std::vector<int32_t>> token_ids = {};     // that the model generated, of each turn
  std::vector<std::vector<data::Message>> rounds = {};  // earlier conversations of the episode, which train as separate sequences

  const std::vector<data::Message>& messages() const { return dialog ? *dialog : question->messages; }
};

// How far training is when completions are scored.
struct TrainingProgress {
  int64_t global_step = 0;  // updates
  double epoch = 0;
};

class Reward {
 public:
  virtual ~Reward() = default;
  virtual void set_progress(const TrainingProgress&) {}
  virtual std::string name() const = 0;  // as metrics and completions.jsonl call it
  virtual bool reads_rendered() const { return false; }
  virtual std::vector<std::string> required_columns() const { return {}; }  // that every row must have
  // NaN: does not apply to this completion. Throws UserError if a reward server fails or a column is missing, StopBetweenSteps if
  // the run should stop meanwhile.
  virtual std::vector<double> score(const std::vector<RewardInput>& completions) = 0;
};

struct RewardConfig {
  std::vector<std::string> functions;   // accuracy, format …, or the URL of a reward server
  std::string score_server;             // URL of LLaMA-Factory's reward_model_type api, after them; empty: none
  int64_t max_completion_length = 512;  // tokens
  double cosine_shortest_wrong = -0.5, cosine_longest_wrong = 0, cosine_shortest_right = 1, cosine_longest_right = 0.5;
  int64_t cosine_longest = 0;                 // tokens; 0: max_completion_length
  int64_t repetition_words = 3;               // of an n-gram
  double repetition_penalty = -1;             // of a text that only repeats
  int64_t soft_longest = 0, soft_margin = 0;  // tokens; 0: max_completion_length, not given
  double http_timeout = 60;                   // seconds for a reward server
  bool allow_remote_rewards = false;          // reward servers may be on other machines
  PluginConfig plugins;                       // Python files that may register names among the functions
  SandboxConfig sandbox;                      // of programs that the reward code runs
};

// In the order of the names. Throws UserError(usage) for unknown names.
std::vector<std::unique_ptr<Reward>> make_rewards(const RewardConfig& config);
// The columns that rewards of these functions need: column and function. A plugin or a server does not state any.
std::vector<std::pair<std::string, std::string>> required_columns(const RewardConfig& config);
// Connects to the reward servers, so that an unreachable one is an error before a model is loaded. Throws UserError(failure).
void probe_rewards(const RewardConfig& config);

// In rule_rewards.cpp.
std::unique_ptr<Reward> make_accuracy_reward();
std::unique_ptr<Reward> make_format_reward();
std::unique_ptr<Reward> make_react_format_reward();
std::unique_ptr<Reward> make_cosine_reward(const RewardConfig& config);
std::unique_ptr<Reward> make_soft_overlong_reward(const RewardConfig& config);
std::unique_ptr<Reward> make_repetition_reward(const RewardConfig& config);
// The environment's reward over an episode: the scheduler's total_reward.
std::unique_ptr<Reward> make_gym_reward();

// In toolbench_reward.cpp, http_reward.cpp and code_reward.cpp.
std::unique_ptr<Reward> make_toolbench_reward();
// `names`: of the rewards before it, which it does not take.
std::unique_ptr<Reward> make_http_reward(const std::string& address, const RewardConfig& config,
                                         const std::vector<std::string>& names);
// Throws UserError(usage) where programs may not or cannot be run in a sandbox.
std::unique_ptr<Reward> make_code_reward(const SandboxConfig& config);
// Why the reward code cannot use a row; empty: it can.
std::optional<Error> problem_of_test_cases(const data::Conversation& row);
// LLaMA-Factory's reward API: texts in, scores out.
std::unique_ptr<Reward> make_score_server_reward(const RewardConfig& config);

// The other columns of the completions' rows, and their media and tools: one list each, null where a row lacks it.
Json columns_of(const std::vector<RewardInput>& completions);
// The column of a row as text; throws UserError(bad_data) naming reward and row when it is not there.
std::string column_text(const RewardInput& completion, const std::string& column, const std::string& reward);

}  // namespace hone::train::rl
