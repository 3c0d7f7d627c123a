#include "hone/serve/http/exchange.h"

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/serve/http/connection.h"

namespace hone::serve {

bool Exchange::gone() const { return connection_->gone_; }
const std::string& Exchange::id() const { return connection_->request_id_; }
void Exchange::disconnect() { connection_->close(); }
void Exchange::drop_body() {
  request_.body = {};
  connection_->body_.give_back();
}

bool Exchange::grow_body(size_t bytes) { return connection_->body_.grow_by(bytes); }

void Exchange::on_gone(std::function<void()> callback) {
  if (callback && connection_->gone_) return callback();
  connection_->on_gone_ = std::move(callback);
}

asio::awaitable<void> Exchange::respond(HttpResponse response) {
  HONE_CHECK(!has_response());
  fault("serve.respond");
  status_ = response.status;
  response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  bool keep_alive = request_.keep_alive && !connection_->draining_;
  auto bytes = connection_->response_bytes(std::move(response), keep_alive, request_);
  bool written = co_await connection_->write(bytes);
  if (!written) connection_->close();
}

asio::awaitable<bool> Exchange::start_events() {
  HttpResponse head{.content_type = "text/event-stream; charset=utf-8"};
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");  // a proxy in front must not buffer events
  return start_stream(std::move(head));
}

asio::awaitable<bool> Exchange::start_stream(HttpResponse head) {
  HONE_CHECK(!has_response());
  status_ = head.status;
  streaming_ = true;
  head.headers.insert(head.headers.end(), headers_.begin(), headers_.end());
  if (request_.http_1_0) request_.keep_alive = false;  // the end of the connection ends the body
  auto bytes = connection_->head_bytes(std::move(head), -1, request_.keep_alive, request_.http_1_0);
  co_return co_await connection_->write(bytes);
}

asio::awaitable<bool> Exchange::send(std::string_view events) {
  if (events.empty()) co_return !gone();
  auto chunk = request_.http_1_0 ? std::string(events) : fmt::format("{:x}\r\n{}\r\n", events.size(), events);
  co_return co_await connection_->write(chunk);
}

// Without chunked encoding (HTTP/1.0) closing the connection ends the stream.
asio::awaitable<void> Exchange::finish_events() {
  bool written = false;
  if (!request_.http_1_0) written = co_await connection_->write("0\r\n\r\n");
  streaming_ = false;
  if (!written) connection_->close();
}

}  // namespace hone::serve
