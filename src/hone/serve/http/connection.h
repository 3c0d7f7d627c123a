// One client connection: reads requests, passes each to the service, writes its response or stream. Runs on the I/O thread.
#pragma once
#include <array>
#include <atomic>
#include <boost/beast/core/flat_buffer.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "hone/serve/http/body_budget.h"
#include "hone/serve/http/message.h"
#include "hone/serve/http/transport.h"

namespace hone::serve {

struct HttpLimits {
  size_t header_bytes = 16u << 10;
  size_t header_fields = 100;
  size_t body_bytes = 32u << 20;
  std::string large_body_path;  // the one route that may take more: weights …
  size_t large_body_bytes = 0;  // … and how much
  size_t connections = 4096;
  size_t all_bodies = 256u << 20;           // held at a time, those that are still arriving included …
  size_t each_bodies = 128u << 20;          // … and of one client's address
  std::chrono::milliseconds idle{75'000};   // between requests
  std::chrono::milliseconds head{15'000};   // from a request's first byte to its last header
  std::chrono::milliseconds body{120'000};  // from there to its last byte
  std::chrono::milliseconds write{30'000};  // a client that takes no byte for so long is disconnected
};

class Connection;

// One request and its response: respond() once, or start_events(), send() …, finish_events().
class Exchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)), request_(std::move(request)) {}
  Exchange(const Exchange&) = delete;

  const HttpRequest& request() const { return request_; }
  HttpRequest& request() { return request_; }
  bool answered() const { return status_ != 0; }
  int status() const { return status_; }                       // 0 until answered
  bool complete() const { return answered() && !streaming_; }  // the client can tell where the answer ends
  bool gone() const;                                           // the client has left, or was disconnected; any thread may ask
  // Called once when the client disconnects; an empty function removes it.
  void on_gone(std::function<void()> callback);
  void disconnect();  // the client takes too little: the connection ends here
  void drop_body();   // nothing reads it any more, and others may need the room

  // The client's own name for itself, for the log.
  void set_user(std::string user) { user_ = std::move(user); }
  const std::string& user() const { return user_; }
  const std::string& id() const;  // of the request, as its answer's X-Request-Id says

  void add_header(std::string name, std::string value) { headers_.emplace_back(std::move(name), std::move(value)); }
  asio::awaitable<void> respond(HttpResponse response);
  // Server-sent events. False: the client has left.
  asio::awaitable<bool> start_events();
  // The same for a response of any type: its header, without a body.
  asio::awaitable<bool> start_stream(HttpResponse head);
  asio::awaitable<bool> send(std::string_view events);
  asio::awaitable<void> finish_events();

 private:
  std::shared_ptr<Connection> connection_;
  HttpRequest request_;
  Headers headers_;  // of whatever the answer is
  std::string user_;
  int status_ = 0;
  bool streaming_ = false;  // events have begun and not ended
};

// Handles the requests of connections.
class Service {
 public:
  virtual ~Service() = default;
  // Called when the header has arrived, before the body is read: unauthorized clients are rejected here.
  virtual std::optional<HttpResponse> refuse(const HttpRequest& head) = 0;
  virtual asio::awaitable<void> handle(Exchange& exchange) = 0;
  // Called for rejected requests, with the status.
  virtual void on_rejected(const HttpRequest&, int) {}
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `client` identifies the sender for per-client limits.
  Connection(asio::any_io_executor executor, std::unique_ptr<Transport> transport, Service& service, const HttpLimits& limits,
             std::shared_ptr<BodyBudget> bodies, std::string client);
  ~Connection();

  asio::awaitable<void> run();
  // Closes the connection now if no request is being answered, else after the response.
  void leave();
  void close();

 private:
  friend class Exchange;
  struct Reading;
  asio::awaitable<void> keep_reading();
  // False: the connection ends here. `request` stays empty if the service rejected it, and the client has its response.
  asio::awaitable<bool> read_request(std::optional<HttpRequest>& request);
  std::optional<HttpResponse> refusal_of(const HttpRequest& head);
  asio::awaitable<bool> turn_away(const HttpRequest& request, HttpResponse refusal);  // false: the connection ends here
  asio::awaitable<bool> read_until(Reading& reading, bool whole);
  bool is_all_framing(Reading& reading, size_t used) const;
  asio::awaitable<void> end_with(HttpResponse response, const HttpRequest& request);
  std::string head_bytes(HttpResponse response, int64_t content_length, bool stays, bool http_1_0) const;
  std::string answer_bytes(HttpResponse response, bool stays, const HttpRequest& request) const;
  asio::awaitable<bool> write(std::string_view bytes);
  void nudge_later();
  void probe_client();
  void close_after(std::chrono::milliseconds time);  // unless limit_ is cancelled before

  asio::any_io_executor executor_;
  std::unique_ptr<Transport> transport_;
  Service& service_;
  const HttpLimits& limits_;
  BodyBudget::Held body_;            // of the present request
  std::array<char, 8192> arrival_;   // where a read under way puts its bytes; the inbox moves while it waits
  boost::beast::flat_buffer inbox_;  // what arrived and no parser has taken
  Signal arrived_, taken_;
  asio::steady_timer limit_;  // on what is under way: a handshake or a write
  std::function<void()> on_gone_;
  asio::steady_timer nudge_;
  std::string request_id_;
  std::atomic<bool> gone_{false};
  bool ended_ = false;       // nothing more will come in; the client may still listen
  bool unanswered_ = false;  // a request waits for the first byte of its answer
  bool interim_ = false;     // which may have an interim one before it
  size_t sent_ahead_ = 0;    // bytes that every answer begins with, sent before it was known
  bool leaving_ = false, busy_ = false;
};

}  // namespace hone::serve
