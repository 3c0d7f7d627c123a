// ms-swift's reward model plugin genrm: a chat model that returns a score. Prompt, score and what a completion without one
// counts are those of its GenRMPlugin.
#include <cctype>
#include <cmath>
#include <unordered_map>

#include "hone/base/log.h"
#include "hone/base/stable_hash.h"
#include "hone/engine/engine.h"
#include "hone/text/python_regex.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/rewards/model_reward.h"
#include "hone/train/rl/rollout_engine.h"
#include "hone/tuner/adapter.h"

namespace hone::train::rl {
namespace {

constexpr int64_t kJudgeCacheTokens = 32768;  // of its KV cache: the policy trains on the same device

constexpr const char* kJudgeSystem = R"(
Based on the dialogue history, analyze in detail whether the model's response is accurate, complete, and relevant.
Assign a reward score between 0 and 1, where 0 indicates completely incorrect and 1 indicates fully correct.
Before finishing your response, please assign a reward using the following format:

Reward: {reward}

For example:
Reward: 0.85
)";

std::string role_title(const std::string& role) {
  auto title = role;
  for (size_t i = 0; i < title.size(); ++i) {
    const auto letter = static_cast<unsigned char>(title[i]);
    title[i] = static_cast<char>(i == 0 ? std::toupper(letter) : std::tolower(letter));
  }
  return title;
}

// The dialog with the completion, a line "Role: text" for each message.
std::string dialog_text(const RewardInput& completion) {
  std::string text;
  const auto add = [&](const std::string& role, const std::string& content) {
    if (content.empty()) return;
    if (!text.empty()) text += "\n";
    text += role_title(role) + ": " + content;
  };
  for (const auto& message : completion.messages()) add(message.role, message.content);
  add("assistant", completion.text);
  return text;
}

std::unique_ptr<model::CausalLM> load_judge(const RewardModelConfig& config) {
  auto model = model::CausalLM::load(config.folder, config.load);
  for (const auto& adapter : config.adapters) tuner::merge_adapter(*model, tuner::load_adapter(*model, adapter, {}));
  for (const auto& parameter : model->parameters()) parameter.value->requires_grad_(false);
  model->set_training(false);
  return model;
}

class GenerativeReward final : public Reward {
 public:
  explicit GenerativeReward(const RewardModelConfig& config)
      : name_(config.folder.filename().string()),
        model_(load_judge(config)),
        tokenizer_(text::Tokenizer::load(config.folder)),
        encoder_(data::Encoder::make(config.encode, tokenizer_, data::read_model_identity(config.folder))),
        sampling_(rollout_sampling(*config.generates, *encoder_)),
        score_(text::PythonRegex::compile(R"(Reward:\s*([+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)(?![0-9A-Za-z_]|\.\d))")
                   .or_throw(ExitCode::failure, "genrm")) {}
  std::string name() const override { return name_; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    std::vector<double> scores;
    int64_t unscored = 0;
    for (const auto& verdict : judge(completions)) {
      const auto score = score_in(verdict);
      unscored += score ? 0 : 1;
      scores.push_back(score.value_or(0));
    }
    unscored_ += unscored;
    if (unscored > 0)
      log::warning("the reward model {} wrote no \"Reward: number\" for {} of {} completions, whose reward is 0 ({} so far)",
                   name_, unscored, scores.size(), unscored_);
    return scores;
  }

 private:
  std::optional<double> score_in(const std::string& verdict) const {
    const auto found = score_.find_all(verdict);
    if (found.empty()) return std::nullopt;
    const double score = std::strtod(found.front()[1]->c_str(), nullptr);
    return std::isfinite(score) ? std::optional(score) : std::nullopt;
  }

  // The same dialog gets the same verdict, in a resumed run, too.
  engine::Request request_for(const RewardInput& completion) const {
    const auto dialog = dialog_text(completion);
    data::Conversation question;
    question.messages = {{.role = "system", .content = kJudgeSystem, .loss = {}, .loss_scale = {}, .extra = {}},
                         {.role = "user", .content = dialog, .loss = {}, .loss_scale = {}, .extra = {}}};
    auto prompt = encoder_->encode_prompt(question);
    if (!prompt)
      throw UserError(ExitCode::bad_data, fmt::format("{}: the reward model {} cannot be asked: {}",
                                                      completion.question->origin.str(), name_, prompt.error()));
    engine::Request request{.prompt = std::move(*prompt), .sampling = sampling_};
    request.sampling.seed = stable_hash(dialog, sampling_.seed);
    return request;
  }

  // What the model writes about each completion; empty if the engine refuses the dialog, which exceeds its context.
  std::vector<std::string> judge(const std::vector<RewardInput>& completions) {
    if (!engine_)
      engine_ = std::make_unique<engine::Engine>(*model_, tokenizer_, engine::EngineConfig{.kv_cache_tokens = kJudgeCacheTokens});
    engine_->wake();
    std::vector<std::string> verdicts(completions.size());
    std::unordered_map<engine::RequestId, size_t> running;
    for (size_t i = 0; i < completions.size(); ++i) {
      auto request = request_for(completions[i]);
      try {
        running[engine_->add(std::move(request))] = i;
      } catch (const UserError& problem) {
        log::warning("{}: the reward model {} cannot read the dialog: {}", completions[i].question->origin.str(), name_,
                     problem.what());
      }
    }
    bool leaving = false;
    while (!running.empty()) {
      if (!leaving && StopSignal::requested() != Stop::none) {
        leaving = true;
        for (const auto& [id, index] : running) engine_->cancel(id);
      }
      for (auto& output : engine_->step()) {
        const auto found = running.find(output.id);
        if (found == running.end()) continue;
        if (output.finish == engine::FinishReason::error)
          throw UserError(ExitCode::failure, fmt::format("the reward model {} failed: {}", name_, output.error));
        verdicts[found->second] += output.text;
        if (output.finish != engine::FinishReason::none) running.erase(found);
      }
    }
    engine_->sleep();
    if (leaving) throw StopBetweenSteps();
    return verdicts;
  }

  std::string name_;
  std::unique_ptr<model::CausalLM> model_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const data::Encoder> encoder_;
  engine::SamplingParams sampling_;
  text::PythonRegex score_;
  std::unique_ptr<engine::Engine> engine_;
  int64_t unscored_ = 0;
};

}  // namespace

std::unique_ptr<Reward> make_generative_reward(const RewardModelConfig& config) {
  return std::make_unique<GenerativeReward>(config);
}

}  // namespace hone::train::rl
