// Sends answers as events while they grow: one road, on which each protocol writes its own words.
#pragma once
#include "hone/serve/chat/answers.h"

namespace hone::serve {

class EventWriter {
 public:
  virtual ~EventWriter() = default;
  virtual void open(const Answers& answers, std::string& out) = 0;  // before the first news
  virtual void news(const Answers::News& news, const Answers& answers, std::string& out) = 0;
  virtual void close(const Answers& answers, std::string& out) = 0;  // everything has been told
  virtual void fail(const Problem& problem, std::string& out) = 0;   // or this is why not
};

// Throws Problem while nothing has been sent, so that a refusal still has a status of its own; later ones become the stream's
// last event.
asio::awaitable<void> send_events(Exchange& exchange, Context& context, Answers& answers, EventWriter& writer);

}  // namespace hone::serve
