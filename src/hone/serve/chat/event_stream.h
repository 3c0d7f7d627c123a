// Streams choices as events; each protocol formats its own.
#pragma once
#include "hone/serve/chat/choices.h"

namespace hone::serve {

class EventWriter {
 public:
  virtual ~EventWriter() = default;
  virtual void open(const ChoiceStream& answers, std::string& out) = 0;  // before the first news
  virtual void on_delta(const ChoiceStream::ChoiceDelta& news, const ChoiceStream& answers, std::string& out) = 0;
  virtual void close(const ChoiceStream& answers, std::string& out) = 0;  // everything has been sent
  virtual void fail(const ApiError& problem, std::string& out) = 0;       // or this is why not
};

// Throws ApiError while nothing has been sent, so that an error still has its own status; later errors become the stream's last
// event.
asio::awaitable<void> send_events(Exchange& exchange, Context& context, ChoiceStream& answers, EventWriter& writer);

}  // namespace hone::serve
