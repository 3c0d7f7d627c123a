// POST /v1/responses, OpenAI's newer API: items in, items out.
// Nothing is stored, so each request contains its full conversation.
#pragma once
#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {

ChatTask read_response(const Json& body, const ServedModel& served);
asio::awaitable<void> responses(Exchange& exchange, Context& context);

// The parts of a response as output items; `status` is in_progress, completed or incomplete.
struct OutputItems {
  static Json thought(const std::string& id, const std::string& text, std::string_view status);
  static Json message(const std::string& id, const std::string& text, const Json& logprobs, std::string_view status);
  static Json call(const std::string& id, const Choice::Call& call, std::string_view status);
};

// The response object, which repeats the request's settings.
class ResponseFrame {
 public:
  ResponseFrame(const ChatTask& task, const std::string& model);
  Json json(std::string_view status, Json output, const Usage* usage) const;

 private:
  Json head_;
};

std::string_view status_of(const Choice& choice);

class ResponseEvents : public EventWriter {
 public:
  ResponseEvents(const ChatTask& task, const ServedModel& served, const std::string& model);
  void open(const ChoiceStream& choices, std::string& out) override;
  void on_delta(const ChoiceStream::ChoiceDelta& news, const ChoiceStream& choices, std::string& out) override;
  void close(const ChoiceStream& choices, std::string& out) override;
  void fail(const ApiError& problem, std::string& out) override;

 private:
  void add(const Delta& delta, const Choice& choice, Json logprobs, std::string& out);
  void begin_item(Delta::Kind kind, const Choice& choice, size_t call, std::string& out);
  void end_item(const Choice& choice, std::string_view status, std::string& out);
  Json item(const Choice& choice, std::string_view status) const;
  Json part() const;
  void send(std::string_view type, Json fields, std::string& out);

  ResponseFrame frame_;
  const text::TokenBytes bytes_;
  int64_t next_ = 0;  // number of the next event
  Json done_ = Json::array();
  // The current item; none if the id is empty.
  std::string id_, text_;
  Delta::Kind kind_ = Delta::Kind::text;
  size_t call_ = 0;
  Json logprobs_ = Json::array();
};

}  // namespace hone::serve
