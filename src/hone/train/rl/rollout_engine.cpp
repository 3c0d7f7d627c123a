#include "hone/train/rl/rollout_engine.h"

#include <unordered_map>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/loop/stop_signal.h"

namespace hone::train::rl {
namespace {

// Every process has the full model while this lives.
class WholeModel {
 public:
  explicit WholeModel(ParallelStrategy& group) : group_(group) { group_.keep_gathered(true); }
  ~WholeModel() {
    try {
      group_.keep_gathered(false);
    } catch (const std::exception& problem) {
      log::debug("{}", problem.what());  // ms-swift and LLaMA-Factory are gone: the next collective says so
    }
  }
  WholeModel(const WholeModel&) = delete;

 private:
  ParallelStrategy& group_;
};

}  // namespace

RolloutEngine::RolloutEngine(model::CausalLM& model, std::shared_ptr<const data::Encoder> encoder,
                             std::shared_ptr<const text::Tokenizer> tokenizer, ParallelStrategy& group,
                             engine::SamplingParams sampling, const engine::EngineConfig& config, bool sleeps)
    : model_(model),
      encoder_(std::move(encoder)),
      tokenizer_(std::move(tokenizer)),
      group_(group),
      sampling_(std::move(sampling)),
      config_(config),
      sleep_between_rollouts_(sleeps) {
  config_.fuse_projections = false;
}

engine::Request RolloutEngine::request_for(const Question& question) const {
  engine::Request request{.prompt = *question.prompt, .sampling = sampling_};
  auto& sampling = request.sampling;
  sampling.seed = question.seed;
  sampling.eos_token_ids = encoder_->stop_ids();
  for (const auto& word : encoder_->stop_words()) sampling.stop.push_back(word);
  return request;
}

// Until all are written, or somebody wants to leave: then false.
bool RolloutEngine::run(std::vector<GeneratedCompletion>& answers, const std::vector<Question>& questions) {
  std::unordered_map<engine::RequestId, size_t> places;
  for (size_t i = 0; i < questions.size(); ++i) places[engine_->add(request_for(questions[i]))] = i;
  bool leaving = false;
  while (!places.empty()) {
    if (!leaving && StopSignal::requested() != Stop::none) {
      leaving = true;
      for (const auto& [id, place] : places) engine_->cancel(id);
    }
    for (auto& output : engine_->step()) {
      auto found = places.find(output.id);
      if (found == places.end()) continue;
      auto& answer = answers[found->second];
      answer.tokens.insert(answer.tokens.end(), output.tokens.begin(), output.tokens.end());
      answer.text += output.text;
      if (output.finish == engine::FinishReason::none) continue;
      if (output.finish == engine::FinishReason::error) throw UserError(ExitCode::failure, "generation failed: " + output.error);
      bool at_end = output.stop_token >= 0 && (answer.tokens.empty() || answer.tokens.back() != output.stop_token);
      if (at_end) answer.tokens.push_back(output.stop_token);
      answer.truncated = output.finish == engine::FinishReason::length;
      places.erase(found);
    }
    ProgressBar::set_active_status(fmt::format("generating {}/{}", questions.size() - places.size(), questions.size()));
  }
  return !leaving;
}

std::vector<GeneratedCompletion> RolloutEngine::write(const std::vector<Question>& questions) {
  std::vector<GeneratedCompletion> answers(questions.size());
  bool written = true;
  {
    WholeModel whole(group_);
    EvaluationMode mode(model_);
    if (!engine_) engine_ = std::make_unique<engine::Engine>(model_, tokenizer_, config_);
    engine_->wake();
    engine_->update_weights(++version_);
    written = run(answers, questions);
    if (sleep_between_rollouts_) engine_->sleep();
  }
  if (group_.sum(written ? 0 : 1) > 0) throw StopBetweenSteps();
  return answers;
}

}  // namespace hone::train::rl
