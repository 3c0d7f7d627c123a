#include "hone/train/rl/writer.h"

#include <unordered_map>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/train/evaluation_mode.h"
#include "hone/train/stop_signal.h"

namespace hone::train::rl {
namespace {

// Every process has the whole model while this lives.
class WholeModel {
 public:
  explicit WholeModel(Group& group) : group_(group) { group_.hold_whole_model(true); }
  ~WholeModel() {
    try {
      group_.hold_whole_model(false);
    } catch (const std::exception& problem) {
      log::debug("{}", problem.what());  // the peers are gone: the next collective says so
    }
  }
  WholeModel(const WholeModel&) = delete;

 private:
  Group& group_;
};

}  // namespace

AnswerWriter::AnswerWriter(model::CausalLM& model, std::shared_ptr<const data::Encoder> encoder, std::shared_ptr<const text::Tokenizer> tokenizer, Group& group,
                           engine::SamplingParams sampling, const engine::EngineConfig& config, bool sleeps)
    : model_(model), encoder_(std::move(encoder)), tokenizer_(std::move(tokenizer)), group_(group), sampling_(std::move(sampling)), config_(config), sleeps_(sleeps) {
  config_.lays_out_weights = false;
}

engine::Request AnswerWriter::request_for(const Question& question) const {
  engine::Request request{.prompt = *question.prompt, .sampling = sampling_};
  auto& sampling = request.sampling;
  sampling.seed = question.seed;
  sampling.end_tokens = encoder_->stop_ids();
  for (const auto& word : encoder_->stop_words()) sampling.stop.push_back(word);
  return request;
}

// Until all are written, or somebody wants to leave: then false.
bool AnswerWriter::run(std::vector<WrittenAnswer>& answers, const std::vector<Question>& questions) {
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
      if (output.finish == engine::FinishReason::error) throw UserError(ExitCode::failure, "an answer cannot be written: " + output.error);
      bool at_end = output.stop_token >= 0 && (answer.tokens.empty() || answer.tokens.back() != output.stop_token);
      if (at_end) answer.tokens.push_back(output.stop_token);
      answer.cut = output.finish == engine::FinishReason::length;
      places.erase(found);
    }
    ProgressBar::tell_active(fmt::format("writing answers {}/{}", questions.size() - places.size(), questions.size()));
  }
  return !leaving;
}

std::vector<WrittenAnswer> AnswerWriter::write(const std::vector<Question>& questions) {
  std::vector<WrittenAnswer> answers(questions.size());
  bool written = true;
  {
    WholeModel whole(group_);
    EvaluationMode mode(model_);
    if (!engine_) engine_ = std::make_unique<engine::Engine>(model_, tokenizer_, config_);
    engine_->wake();
    engine_->update_weights(++version_);
    written = run(answers, questions);
    if (sleeps_) engine_->sleep();
  }
  if (group_.sum(written ? 0 : 1) > 0) throw StopBetweenSteps();
  return answers;
}

}  // namespace hone::train::rl
