// A user-defined reward at a URL: POST {"prompts", "completions", "tokens", "columns"}; the response is a list of numbers or
// nulls.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "hone/base/strings/counted.h"
#include "hone/hub/post_json.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {
namespace {

// Column names reserved by completions.jsonl.
constexpr std::array<std::string_view, 6> kTaken = {"step", "prompt", "completion", "advantages", "solution", "entropy"};

hub::PostAddress read_reward_url(const std::string& address) try {
  if (auto read = hub::read_address(address)) return *read;
  throw UserError(ExitCode::usage, fmt::format("\"{}\" is not an address of a reward", address),
                  "expected something like http://127.0.0.1:9000/score");
} catch (const std::runtime_error& problem) {
  throw UserError(ExitCode::usage, problem.what());
}

Json question_for(const std::vector<RewardInput>& completions) {
  Json prompts = Json::array(), texts = Json::array(), tokens = Json::array();
  for (const auto& completion : completions) {
    Json messages = Json::array();
    for (const auto& message : completion.messages()) messages.push_back({{"role", message.role}, {"content", message.content}});
    prompts.push_back(std::move(messages));
    texts.push_back(completion.text);
    tokens.push_back(completion.tokens);
  }
  return {{"prompts", std::move(prompts)},
          {"completions", std::move(texts)},
          {"tokens", std::move(tokens)},
          {"columns", columns_of(completions)}};
}

// The request format of LLaMA-Factory.
Json texts_for(const std::vector<RewardInput>& completions) {
  Json texts = Json::array();
  for (const auto& completion : completions) texts.push_back(completion.rendered);
  return {{"model", "model"}, {"messages", std::move(texts)}};
}

enum class RewardWire { hone, factory };

class HttpReward final : public Reward {
 public:
  HttpReward(std::string address, std::string shown, std::string name, double seconds, RewardWire wire = RewardWire::hone)
      : address_(std::move(address)), shown_(std::move(shown)), name_(std::move(name)), seconds_(seconds), wire_(wire) {}
  std::string name() const override { return name_; }
  bool reads_rendered() const override { return wire_ == RewardWire::factory; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    const auto question = wire_ == RewardWire::factory ? texts_for(completions) : question_for(completions);
    auto reply = parse_json(asked(question.dump(-1, ' ', false, Json::error_handler_t::replace)));
    if (!reply) throw misunderstood("no JSON: " + reply.error());
    const char* key = wire_ == RewardWire::factory ? "scores" : "rewards";
    const Json& list = reply->is_object() && reply->contains(key) ? (*reply)[key] : *reply;
    if (!list.is_array() || list.size() != completions.size())
      throw misunderstood(
          list.is_array() ? fmt::format("{} for {}", counted(list.size(), "reward"), counted(completions.size(), "completion"))
                          : "no list");
    std::vector<double> scores;
    for (const auto& value : list) {
      if (!value.is_number() && !value.is_null())
        throw misunderstood(fmt::format("{} among the rewards", value.dump().substr(0, 80)));
      scores.push_back(value.is_null() ? std::nan("") : value.get<double>());
    }
    return scores;
  }

 private:
  std::string asked(const std::string& body) const {
    hub::PostOptions posting{.timeout = std::chrono::seconds(static_cast<int64_t>(std::ceil(seconds_))),
                             .is_cancelled = [] { return StopSignal::requested() != Stop::none; }};
    try {
      return hub::post_json(address_, body, posting);
    } catch (const hub::PostCancelled&) {
      throw StopBetweenSteps();
    } catch (const std::runtime_error& problem) {
      throw UserError(ExitCode::failure, fmt::format("the request to the reward server at {} failed: {}", shown_, problem.what()),
                      "check that it is running; `reward_timeout` sets how long it may take. Resume the run from its last "
                      "checkpoint with `resume_from_checkpoint`");
    }
  }

  UserError misunderstood(const std::string& found) const {
    return UserError(
        ExitCode::failure, fmt::format("the reward at {} returned {}", shown_, found),
        wire_ == RewardWire::factory
            ? "expected {\"scores\": [...]} with a number for each text (docs/reinforcement.md)"
            : "expected a JSON list with a number for each completion, or null (NaN is not JSON), or {\"rewards\": [...]} "
              "(docs/reinforcement.md)");
  }

  std::string address_, shown_, name_;
  double seconds_;
  RewardWire wire_;
};

void require_near(const hub::PostAddress& address, const RewardConfig& config) {
  if (config.allow_remote_rewards || address.this_machine) return;
  throw UserError(ExitCode::usage,
                  fmt::format("the reward {} is on another machine; prompts and completions would be sent there", address.shown),
                  "to allow it, set `remote_rewards` true");
}

}  // namespace

std::unique_ptr<Reward> make_http_reward(const std::string& address, const RewardConfig& config,
                                         const std::vector<std::string>& names) {
  auto read = read_reward_url(address);
  require_near(read, config);
  auto base = read.path.empty() ? read.host : read.path.substr(read.path.rfind('/') + 1);
  auto taken = [&](const std::string& name) { return std::ranges::count(names, name) + std::ranges::count(kTaken, name) > 0; };
  auto name = base;
  for (int number = 2; taken(name); ++number) name = fmt::format("{}-{}", base, number);
  return std::make_unique<HttpReward>(address, read.shown, name, config.http_timeout);
}

std::unique_ptr<Reward> make_score_server_reward(const RewardConfig& config) {
  auto read = read_reward_url(config.score_server);
  require_near(read, config);
  return std::make_unique<HttpReward>(config.score_server, read.shown, "api", config.http_timeout, RewardWire::factory);
}

}  // namespace hone::train::rl
