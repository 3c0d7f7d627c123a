// The answers to one request while they grow: what both protocols read out of the engine's events.
#pragma once
#include "hone/serve/chat/answer_parser.h"
#include "hone/serve/context.h"
#include "hone/serve/openai/format.h"

namespace hone::serve {

struct Answer {
  explicit Answer(const AnswerParser::Config& config) : parser(config) {}

  struct Call {
    std::string id, name, arguments;
  };
  AnswerParser parser;
  std::string text, thought;
  std::vector<Call> calls;
  std::vector<engine::PositionLogprobs> logprobs, prompt_logprobs;
  std::optional<float> end_logprob;  // of the token that ended it
  engine::FinishReason finish = engine::FinishReason::none;
  std::string stop_string;
  int64_t tokens = 0;
};

// Follows a Generation: parses, counts, keeps time. I/O thread only.
class Answers {
 public:
  // An answer for each of `parsers`. Log-probabilities of answers that are sent whole are kept, up to a limit.
  Answers(Context& context, std::shared_ptr<Generation> generation, const std::vector<AnswerParser::Config>& parsers,
          int64_t prompt_tokens, bool whole);

  // One event's news of one answer.
  struct News {
    size_t choice;
    std::vector<Delta> deltas;
    const engine::Output* output;  // valid until the next call; its log-probabilities are here when the answers are streamed
  };
  // Waits for more. Empty: everything has been told. Throws Problem when an answer failed, the server goes down or the client
  // left.
  asio::awaitable<std::vector<News>> next();
  // Until the end, for answers that are sent whole.
  asio::awaitable<void> finish();

  const Answer& answer(size_t choice) const { return answers_[choice]; }
  std::span<const Answer> all() const { return answers_; }
  size_t size() const { return answers_.size(); }
  size_t parts() const { return answers_.size() + logprobs_; }  // what writing them all down takes
  const Usage& usage() const { return usage_; }

 private:
  void keep_time(size_t tokens);
  void keep_logprobs(Answer& answer, engine::Output& output);
  static void drop_torn_call(Answer& answer);
  News take(Event& event);

  Context& context_;
  std::shared_ptr<Generation> generation_;
  std::vector<Answer> answers_;
  std::vector<Event> events_;
  Usage usage_;
  const bool whole_;
  size_t logprobs_ = 0;  // entries kept
  Clock::time_point began_, last_;
  bool first_ = true, counted_ = false;
};

size_t count_logprobs(const engine::Output& output);  // entries, of prompt and answer

// Adds the finished chat to the server's result file, when there is one: a row as `infer` writes it.
void keep_result(const Context& context, const data::Conversation& question, const Answers& answers, const std::string& model);

}  // namespace hone::serve
