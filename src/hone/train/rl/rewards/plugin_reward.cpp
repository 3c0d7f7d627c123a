#include "hone/train/rl/rewards/plugin_reward.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "hone/base/log.h"
#include "hone/base/strings/counted.h"
#include "hone/train/loop/stop_signal.h"

namespace hone::train::rl {
namespace {

// What ms-swift gives to rewards for a completion, besides the row's columns. A rollout of one turn has a flat list of tokens.
Json sample_fields(const RewardInput& completion, size_t index) {
  auto conversation = data::messages_json(completion.messages());
  conversation.push_back({{"role", "assistant"}, {"content", completion.text}});
  auto infos = completion.infos ? *completion.infos : Json::object();
  if (completion.infos) infos["num_turns"] = completion.turns;
  return {{"completions", completion.text},
          {"messages", std::move(conversation)},
          {"rollout_infos", std::move(infos)},
          {"request_id", completion.request_id.empty() ? fmt::format("request-{}", index) : completion.request_id},
          {"prompt_id", completion.prompt_id.empty() ? fmt::format("prompt-{}", index) : completion.prompt_id},
          {"finish_reason", completion.truncated ? "length" : "stop"},
          {"is_truncated", completion.truncated},
          {"response_token_ids", completion.infos || completion.token_ids.size() != 1 ? Json(completion.token_ids)
                                                                                      : Json(completion.token_ids.front())}};
}

// The arguments of a plugin's function, and the rounds of several turns, of which the script makes trajectory_inputs. A row's
// column has precedence, except over what identifies a completion and its conversation.
Json plugin_request(const std::vector<RewardInput>& completions, const TrainingProgress& progress) {
  static const std::set<std::string> kNeverOfRows{"completions", "messages", "request_id", "prompt_id", "trainer_state"};
  Json fields = Json::object();
  for (size_t i = 0; i < completions.size(); ++i) {
    const auto own = sample_fields(completions[i], i);
    for (const auto& [name, value] : own.items()) fields[name].push_back(value);
  }
  fields["trainer_state"] = {{"global_step", progress.global_step}, {"epoch", progress.epoch}};
  auto keywords = columns_of(completions);
  for (auto& [name, value] : fields.items())
    if (kNeverOfRows.contains(name) || !keywords.contains(name)) keywords[name] = std::move(value);
  Json request;
  request["keywords"] = std::move(keywords);
  if (!completions.empty() && completions.front().infos) {
    auto& rounds = request["rounds"] = Json::array();
    for (const auto& completion : completions) {
      auto& own = rounds.emplace_back(Json::array());
      for (const auto& round : completion.rounds) own.push_back(data::messages_json(round));
    }
  }
  return request;
}

constexpr size_t kProbedRows = 3, kNamedFailures = 8;

struct ScoringOrder {
  std::vector<size_t> order;
  size_t probes = 0;
};

// One completion of each of the first rows, then the others: a plugin that never worked and fails on all of these is broken, and
// a time-out for every completion could take hours.
ScoringOrder probes_first(const std::vector<RewardInput>& completions) {
  std::set<std::string> rows;
  std::vector<size_t> first, others;
  for (size_t i = 0; i < completions.size(); ++i) {
    const bool probes = rows.size() < kProbedRows && rows.insert(completions[i].question->origin.str()).second;
    (probes ? first : others).push_back(i);
  }
  const auto probes = first.size() == kProbedRows ? kProbedRows : completions.size();
  first.insert(first.end(), others.begin(), others.end());
  return {std::move(first), probes};
}

class PluginReward final : public Reward {
 public:
  PluginReward(std::string key, std::string title, std::shared_ptr<PluginWorker> worker)
      : key_(std::move(key)), title_(std::move(title)), worker_(std::move(worker)) {}
  std::string name() const override { return title_; }
  void set_progress(const TrainingProgress& progress) override { progress_ = progress; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    std::string why;
    if (auto scores = scored(completions, why)) return *scores;
    if (completions.size() == 1) throw all_failed(why);
    log::warning("the plugin {} failed on {} completions ({}); they are scored one by one", key_, completions.size(), why);
    std::vector<double> scores(completions.size(), std::nan(""));
    const auto [order, probes] = probes_first(completions);
    size_t failed = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const auto& completion = completions[order[i]];
      if (auto one = scored({completion}, why)) {
        scores[order[i]] = (*one)[0];
        continue;
      }
      ++failed, ++failures_;
      if (failed <= kNamedFailures)
        log::warning("the plugin {} failed on the completion for {}: {}; it has no reward ({} so far)", key_,
                     completion.question->origin.str(), why, failures_);
      if (failed == order.size() || (!has_worked_ && failed == probes)) throw all_failed(why);
    }
    if (failed > kNamedFailures)
      log::warning("the plugin {} failed on {} of {} completions, which have no reward ({} so far)", key_, failed,
                   completions.size(), failures_);
    return scores;
  }

 private:
  // Nothing if the call failed. Throws if the result shows a bug in the plugin rather than a problem of a row.
  std::optional<std::vector<double>> scored(const std::vector<RewardInput>& completions, std::string& why) {
    auto stops = [] { return StopSignal::requested() != Stop::none; };
    auto rewards = worker_->call(key_, plugin_request(completions, progress_), stops);
    if (stops()) throw StopBetweenSteps();
    if (!rewards) {
      why = rewards.error();
      return std::nullopt;
    }
    if (!rewards->is_array() || rewards->size() != completions.size())
      throw UserError(
          ExitCode::failure,
          fmt::format("the plugin {} returned {} for {}", key_, counted(rewards->is_array() ? rewards->size() : 0, "reward"),
                      counted(completions.size(), "completion")),
          "expected a number or None for each, in their order");
    std::vector<double> scores;
    for (const auto& value : *rewards) scores.push_back(value.is_number() ? value.get<double>() : std::nan(""));
    auto silent = std::ranges::count_if(scores, [](double score) { return std::isnan(score); });
    if (silent > 0 && silent_ == 0)
      log::warning("the plugin {} gives no reward (NaN or None) for {} of {} completions, as for the one to {}", key_, silent,
                   scores.size(),
                   completions[static_cast<size_t>(std::ranges::find_if(scores, [](double score) { return std::isnan(score); }) -
                                                   scores.begin())]
                       .question->origin.str());
    silent_ += silent;
    has_worked_ = true;
    return scores;
  }

  UserError all_failed(const std::string& why) const {
    return UserError(ExitCode::failure, fmt::format("the plugin {} failed on every completion that was tried: {}", key_, why),
                     "fix it, and resume the run; `reward_timeout` sets how long a call may take");
  }

  std::string key_, title_;
  TrainingProgress progress_;
  std::shared_ptr<PluginWorker> worker_;
  int64_t failures_ = 0, silent_ = 0;
  bool has_worked_ = false;  // for at least one call
};

}  // namespace

std::unique_ptr<Reward> make_plugin_reward(const std::string& name, std::shared_ptr<PluginWorker> worker) {
  auto title = worker->titles().at(name);
  return std::make_unique<PluginReward>(name, title, std::move(worker));
}

}  // namespace hone::train::rl
