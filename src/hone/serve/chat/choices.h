// The choices of one request during generation: what both protocols read from the engine's events.
#pragma once
#include "hone/serve/chat/output_parser.h"
#include "hone/serve/context.h"
#include "hone/serve/openai/format.h"

namespace hone::serve {

struct Choice {
  explicit Choice(const OutputParser::Config& config) : parser(config) {}

  struct Call {
    std::string id, name, arguments;
  };
  OutputParser parser;
  std::string text, thought;
  std::vector<Call> calls;
  std::vector<engine::PositionLogprobs> logprobs, prompt_logprobs;
  std::optional<float> end_logprob;  // of the token that ended it
  engine::FinishReason finish = engine::FinishReason::none;
  std::string stop_string;
  int64_t tokens = 0;
};

// Follows a Generation: parses, counts, measures time. I/O thread only.
class ChoiceStream {
 public:
  // One choice per parser in `parsers`. Log-probabilities of non-streamed choices are kept, up to a limit.
  ChoiceStream(Context& context, std::shared_ptr<Generation> generation, const std::vector<OutputParser::Config>& parsers,
               int64_t prompt_tokens, bool whole);

  // One event's update of one choice.
  struct ChoiceDelta {
    size_t choice;
    std::vector<Delta> deltas;
    const engine::RequestOutput*
        output;  // valid until the next call; its log-probabilities are here when the choices are streamed
  };
  // Waits for more. Empty: everything has been sent. Throws ApiError if a choice failed, the server shuts down or the client
  // left.
  asio::awaitable<std::vector<ChoiceDelta>> next();
  // Until the end, for non-streamed responses.
  asio::awaitable<void> finish();

  const Choice& at(size_t index) const { return choices_[index]; }
  std::span<const Choice> all() const { return choices_; }
  size_t size() const { return choices_.size(); }
  size_t parts() const { return choices_.size() + logprobs_; }  // what writing them all down takes
  const Usage& usage() const { return usage_; }

 private:
  void keep_time(size_t tokens);
  void keep_logprobs(Choice& choice, engine::RequestOutput& output);
  static void drop_incomplete_call(Choice& choice);
  ChoiceDelta take(Event& event);

  Context& context_;
  std::shared_ptr<Generation> generation_;
  std::vector<Choice> choices_;
  std::vector<Event> events_;
  Usage usage_;
  const bool whole_;
  size_t logprobs_ = 0;  // entries kept
  Clock::time_point began_, last_;
  bool first_ = true, counted_ = false;
};

size_t count_logprobs(const engine::RequestOutput& output);  // entries, of prompt and completion

// Appends the finished chat to the server's result file, if any: a row as `infer` writes it.
void keep_result(const Context& context, const data::Conversation& question, const ChoiceStream& choices,
                 const std::string& model);

// Streams choices as events; each protocol formats its own.
class EventWriter {
 public:
  virtual ~EventWriter() = default;
  virtual void open(const ChoiceStream& choices, std::string& out) = 0;  // before the first delta
  virtual void on_delta(const ChoiceStream::ChoiceDelta& news, const ChoiceStream& choices, std::string& out) = 0;
  virtual void close(const ChoiceStream& choices, std::string& out) = 0;  // everything has been sent
  virtual void fail(const ApiError& problem, std::string& out) = 0;       // or this is why not
};

// Throws ApiError while nothing has been sent, so that an error still has its own status; later errors become the stream's last
// event.
asio::awaitable<void> send_events(Exchange& exchange, Context& context, ChoiceStream& choices, EventWriter& writer);

}  // namespace hone::serve
