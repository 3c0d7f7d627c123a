// Common parts of the server and the gateway: they listen, reject requests without a key or route, and shut down on a signal.
#pragma once
#include <boost/asio/signal_set.hpp>

#include "hone/serve/http/access.h"
#include "hone/serve/http/in_flight.h"
#include "hone/serve/http/listener.h"
#include "hone/serve/server.h"
#include "hone/tinker/api/keys.h"

namespace hone::tinker {

namespace asio = boost::asio;

// An error in the format of the request's API.
serve::HttpResponse problem_answer(const serve::ApiError& problem, const serve::HttpRequest& request);

class TinkerService : public serve::Service {
 public:
  std::optional<serve::HttpResponse> refuse(const serve::HttpRequest& head) override;
  asio::awaitable<void> handle(serve::Exchange& exchange) override;

 protected:
  // `http` and `keys` must outlive the service. `name`: "server", for messages.
  TinkerService(const serve::ServerConfig& http, const Keys& keys, const char* name);

  virtual asio::awaitable<void> answer(serve::Exchange& exchange) = 0;
  virtual serve::ApiError reported(serve::ApiError problem, const serve::HttpRequest&) { return problem; }
  virtual void on_answered(const serve::Exchange&, double /*seconds*/) {}
  virtual void on_draining(int signal) = 0;  // logs it, and ends waits
  virtual void interrupt() = 0;              // ends the responses that are left after two seconds

  void serve_until_signal();

  asio::io_context& io() { return io_; }
  serve::Listener& listener() { return listener_; }
  bool uses_tls() const { return tls_ != nullptr; }
  bool is_draining() const { return draining_; }

 private:
  void start_draining(int signal);
  asio::awaitable<void> drain();

  const serve::ServerConfig& http_;
  const Keys& keys_;
  const char* name_;
  serve::Access access_;
  serve::InFlightRequests in_flight_;  // outlives io_, whose requests count themselves out
  asio::io_context io_{1};
  std::shared_ptr<asio::ssl::context> tls_;
  serve::Listener listener_;
  asio::signal_set signals_;
  bool draining_ = false;
};

}  // namespace hone::tinker
