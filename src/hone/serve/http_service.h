// Common part of all servers: they listen, announce their address, check keys and origins, report failures, and drain on a
// signal.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "hone/serve/http/access.h"
#include "hone/serve/http/in_flight.h"
#include "hone/serve/http/listener.h"
#include "hone/serve/server.h"

namespace hone::serve {

class HttpService : public Service {
 public:
  asio::awaitable<void> handle(Exchange& exchange) final;

 protected:
  // `config` must outlive the service; `api_key` is "" if the service has keys of its own. Throws UserError(usage) if the address
  // is not available. A signal while io() runs before serve_until_stopped() ends the process.
  HttpService(const ServerConfig& config, const std::string& api_key);

  // "WHAT is served at http://127.0.0.1:8000 HOW", in the log.
  void announce(std::string_view what, std::string_view how) const;
  // Until a signal or end(), and until all requests have their responses. Returns the exit code.
  int serve_until_stopped();
  // Starts draining.
  void end(std::chrono::milliseconds timeout, int exit_code);
  // The refusal of a page of another site, or of a client without a valid key.
  std::optional<HttpResponse> refuse_access(const HttpRequest& head) const;

  virtual asio::awaitable<void> dispatch(Exchange& exchange) = 0;
  virtual HttpResponse error_response(const ApiError& problem, const HttpRequest& request) const = 0;
  virtual bool is_authorized(const HttpRequest& head) const { return !access_.has_key() || access_.has_valid_key(head); }
  // The error of a failed request, as its client gets it.
  virtual ApiError reported(ApiError problem, const HttpRequest&) { return problem; }
  virtual void on_response(const Exchange&, double /*seconds*/) {}
  virtual std::chrono::milliseconds drain_timeout() const { return config_.drain; }
  virtual void on_draining(int signal) = 0;
  virtual void interrupt() = 0;  // ends the requests that are left after the drain timeout
  // After that. False: something still runs, and the process ends without it.
  virtual asio::awaitable<bool> finish();

  const ServerConfig& config() const { return config_; }
  const Access& access() const { return access_; }
  asio::io_context& io() { return io_; }
  Listener& listener() { return listener_; }
  const InFlightRequests& in_flight() const { return in_flight_; }
  bool uses_tls() const { return tls_ != nullptr; }
  bool is_draining() const { return draining_; }

 private:
  void on_signal(int signal);
  asio::awaitable<void> drain(std::chrono::milliseconds timeout, int exit_code);

  const ServerConfig& config_;
  Access access_;
  InFlightRequests in_flight_;  // outlives io_, whose requests count themselves out
  asio::io_context io_{1};
  std::shared_ptr<asio::ssl::context> tls_;
  Listener listener_;
  asio::signal_set signals_;
  bool serving_ = false, draining_ = false;
  int exit_code_ = 0;
};

}  // namespace hone::serve
