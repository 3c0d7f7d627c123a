// One client connection: reads requests, passes each to the service, writes its response or stream. Runs on the I/O thread.
#pragma once
#include <array>
#include <atomic>
#include <boost/beast/core/flat_buffer.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "hone/serve/http/body_budget.h"
#include "hone/serve/http/exchange.h"
#include "hone/serve/http/transport.h"

namespace hone::serve {

struct HttpLimits {
  size_t header_bytes = 16u << 10;
  size_t header_fields = 100;
  size_t body_bytes = 32u << 20;
  std::string large_body_path;  // the one route that may take more: weights …
  size_t large_body_bytes = 0;  // … and its limit
  size_t connections = 4096;
  size_t all_bodies = 256u << 20;           // in memory at a time, incomplete ones included …
  size_t each_bodies = 128u << 20;          // … and of one client's address
  std::chrono::milliseconds idle{75'000};   // between requests
  std::chrono::milliseconds head{15'000};   // from a request's first byte to its last header
  std::chrono::milliseconds body{120'000};  // from there to its last byte
  std::chrono::milliseconds write{30'000};  // a client that reads no byte for this long is disconnected
};

// One client's connection. An Exchange keeps it alive while its request is handled.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `client` identifies the sender for per-client limits.
  Connection(asio::any_io_executor executor, std::unique_ptr<Transport> transport, Service& service, const HttpLimits& limits,
             std::shared_ptr<BodyBudget> bodies, std::string client);
  ~Connection();

  asio::awaitable<void> run();
  // Closes the connection now if it is idle, else after the response.
  void drain();
  void close();

 private:
  friend class Exchange;
  struct Reading;
  asio::awaitable<void> keep_reading();
  // False: the connection ends here. `request` stays empty if the service rejected it, and the client has its response.
  asio::awaitable<bool> read_request(std::optional<HttpRequest>& request);
  std::optional<HttpResponse> refusal_of(const HttpRequest& head);
  asio::awaitable<bool> reject(const HttpRequest& request, HttpResponse refusal);  // false: the connection ends here
  asio::awaitable<bool> read_until(Reading& reading, bool end_of_body);
  bool has_too_much_framing(Reading& reading, size_t used) const;
  asio::awaitable<void> end_with(HttpResponse response, const HttpRequest& request);
  std::string head_bytes(HttpResponse response, int64_t content_length, bool keep_alive, bool http_1_0) const;
  std::string response_bytes(HttpResponse response, bool keep_alive, const HttpRequest& request) const;
  asio::awaitable<bool> write(std::string_view bytes);
  void schedule_probe();
  void probe_client();
  void close_after(std::chrono::milliseconds time);  // unless timeout_ is cancelled before

  asio::any_io_executor executor_;
  std::unique_ptr<Transport> transport_;
  Service& service_;
  const HttpLimits& limits_;
  BodyBudget::Held body_;            // of the current request
  std::array<char, 8192> arrival_;   // buffer of the pending read; the inbox may be reallocated meanwhile
  boost::beast::flat_buffer inbox_;  // bytes that no parser has consumed
  Signal arrived_, consumed_;
  asio::steady_timer timeout_;  // of a handshake or a write
  std::function<void()> on_gone_;
  asio::steady_timer probe_timer_;
  std::string request_id_;
  std::atomic<bool> gone_{false};
  bool ended_ = false;       // the client has closed its sending side; it may still read
  bool unanswered_ = false;  // no byte of the response to the current request is sent
  bool interim_ = false;     // the client understands interim responses
  size_t sent_ahead_ = 0;    // first bytes of every response, already sent as a probe
  bool draining_ = false, busy_ = false;
};

}  // namespace hone::serve
