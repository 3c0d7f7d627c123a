// One request and its response, and the service that handles them.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "hone/serve/http/message.h"
#include "hone/serve/http/transport.h"

namespace hone::serve {

class Connection;

// One request and its response: respond() once, or start_events(), send() …, finish_events().
class Exchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)), request_(std::move(request)) {}
  Exchange(const Exchange&) = delete;

  const HttpRequest& request() const { return request_; }
  HttpRequest& request() { return request_; }
  bool has_response() const { return status_ != 0; }
  int status() const { return status_; }                           // 0 before the response
  bool complete() const { return has_response() && !streaming_; }  // the client can tell where the response ends
  bool gone() const;                                               // the client disconnected; thread-safe
  // Called once when the client disconnects; an empty function removes it.
  void on_gone(std::function<void()> callback);
  void disconnect();  // closes the connection of a client that reads too slowly
  void drop_body();   // frees the memory of the body
  // Reserves memory that a request needs in addition to its body, until that memory is released. False: over the limit.
  bool grow_body(size_t bytes);

  // The client's own name for itself, for the log.
  void set_user(std::string user) { user_ = std::move(user); }
  const std::string& user() const { return user_; }
  const std::string& id() const;  // of the request, X-Request-Id of the response

  void add_header(std::string name, std::string value) { headers_.emplace_back(std::move(name), std::move(value)); }
  asio::awaitable<void> respond(HttpResponse response);
  // Server-sent events. False: the client disconnected.
  asio::awaitable<bool> start_events();
  // A streamed response of any type; `head` has no body.
  asio::awaitable<bool> start_stream(HttpResponse head);
  asio::awaitable<bool> send(std::string_view events);
  asio::awaitable<void> finish_events();

 private:
  std::shared_ptr<Connection> connection_;
  HttpRequest request_;
  Headers headers_;  // added to the response
  std::string user_;
  int status_ = 0;
  bool streaming_ = false;  // between start_stream and finish_events
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

}  // namespace hone::serve
