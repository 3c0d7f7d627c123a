// One connection of the load generator: sends a streaming chat request, reads its events, records their times.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/serve/http/message.h"
#include "hone/serve/http/transport.h"
#include "hone/serve/http/url.h"

namespace hone::serve {

struct RequestResult {
  Clock::time_point sent, first, last;  // `first` and `last` event that carried text
  std::vector<double> gaps;             // seconds between such events
  int64_t prompt_tokens = 0, tokens = 0;
  int status = 0;     // 0: no response
  std::string error;  // "" when the response is complete
};

class BenchClient {
 public:
  BenchClient(const Url& url, std::string api_key, std::shared_ptr<asio::ssl::context> tls)
      : url_(url), api_key_(std::move(api_key)), tls_(std::move(tls)) {}
  // `sent` is the scheduled time of the request: waiting before it can be sent counts.
  asio::awaitable<RequestResult> ask(std::string body, Clock::time_point sent);

 private:
  asio::awaitable<std::string> connect();  // why there is no connection; "" if there is
  void read_events(std::string_view events, RequestResult& result);

  const Url& url_;
  std::string api_key_;
  std::shared_ptr<asio::ssl::context> tls_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace hone::serve
