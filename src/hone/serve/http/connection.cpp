#include "hone/serve/http/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "hone/base/strings/lower_case.h"
#include "hone/serve/http/head.h"

namespace hone::serve {
namespace {

namespace http = boost::beast::http;
constexpr size_t kWriteChunk = 64u << 10;
constexpr size_t kDrainable = 256u << 10;  // a rejected body up to this size is discarded, to keep the connection open

// Time after which a client that has closed its sending side is probed by an interim response.
constexpr std::chrono::milliseconds kProbeAfter{1'000};

}  // namespace

struct Connection::Reading {
  http::request_parser<http::string_body> parser;
  std::optional<HttpResponse> error;  // why the bytes are not a valid request
  bool started = false;               // a byte of this request has arrived
  size_t body = 0, framing = 0;       // bytes of the body so far, and bytes since then that did not add to it
  Clock::time_point deadline;
};

Connection::Connection(asio::any_io_executor executor, std::unique_ptr<Transport> transport, Service& service,
                       const HttpLimits& limits, std::shared_ptr<BodyBudget> bodies, std::string client)
    : executor_(executor),
      transport_(std::move(transport)),
      service_(service),
      limits_(limits),
      body_(std::move(bodies), std::move(client)),
      inbox_(limits.header_bytes + 8 * arrival_.size()),
      arrived_(executor),
      consumed_(executor),
      timeout_(executor),
      probe_timer_(executor) {}

Connection::~Connection() = default;

void Connection::close() {
  gone_ = true;
  transport_->close();
  arrived_.notify();
  consumed_.notify();
  if (auto callback = std::exchange(on_gone_, nullptr)) callback();
}

void Connection::drain() {
  draining_ = true;
  if (!busy_) close();
}

// Reading continuously detects a client that disconnects while its response is being generated.
asio::awaitable<void> Connection::keep_reading() {
  auto self = shared_from_this();
  while (!gone_) {
    while (!gone_ && inbox_.size() + arrival_.size() > inbox_.max_size()) co_await consumed_.wait_until(Clock::time_point::max());
    if (gone_) break;
    size_t count = co_await transport_->read_some(asio::buffer(arrival_));
    if (count == 0) break;
    inbox_.commit(asio::buffer_copy(inbox_.prepare(count), asio::buffer(arrival_, count)));
    arrived_.notify();
  }
  ended_ = true;
  arrived_.notify();
  schedule_probe();
  if (!gone_) co_await transport_->until_gone();
  gone_ = true;
  arrived_.notify();
  if (auto callback = std::exchange(on_gone_, nullptr)) callback();
}

// A client that has closed its sending side may be waiting for its response or may be gone. A stream shows this soon, a complete
// response only if something is sent before it: a closed client then resets the connection.
void Connection::schedule_probe() {
  if (!ended_ || !unanswered_) return;
  probe_timer_.expires_after(kProbeAfter);
  probe_timer_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
    auto self = weak.lock();
    if (self && !cancelled && std::exchange(self->unanswered_, false)) self->probe_client();
  });
}

// HTTP/1.0 has no interim responses; it gets the first byte of its response instead, which is always the same.
void Connection::probe_client() {
  if (interim_)
    transport_->try_write("HTTP/1.1 100 Continue\r\n\r\n");
  else if (transport_->try_write("H"))
    sent_ahead_ = 1;
}

std::string Connection::head_bytes(HttpResponse response, int64_t content_length, bool keep_alive, bool http_1_0) const {
  response.headers.emplace_back("X-Request-Id", request_id_);
  return response_head(response, content_length, keep_alive, http_1_0);
}

std::string Connection::response_bytes(HttpResponse response, bool keep_alive, const HttpRequest& request) const {
  auto body = std::move(response.body);
  auto bytes = head_bytes(std::move(response), static_cast<int64_t>(body.size()), keep_alive, request.http_1_0);
  return request.head_only ? bytes : bytes + body;
}

void Connection::close_after(std::chrono::milliseconds time) {
  timeout_.expires_after(time);
  timeout_.async_wait([weak = weak_from_this()](const error_code& cancelled) {
    if (auto self = weak.lock(); self && !cancelled) self->close();
  });
}

// In chunks, so that the timeout applies to a client that reads nothing, not to one that reads a long response slowly.
asio::awaitable<bool> Connection::write(std::string_view bytes) {
  bool written = !gone_;
  unanswered_ = false;
  bytes.remove_prefix(std::exchange(sent_ahead_, 0));
  while (written && !bytes.empty()) {
    auto chunk = bytes.substr(0, kWriteChunk);
    bytes.remove_prefix(chunk.size());
    close_after(limits_.write);
    written = co_await transport_->write(asio::const_buffer(chunk.data(), chunk.size()));
    timeout_.cancel();
  }
  co_return written;
}

// Chunks may have extensions and trailers, which are kept or skipped; more of them than a header may have is an error.
bool Connection::has_too_much_framing(Reading& reading, size_t used) const {
  auto body = reading.parser.get().body().size();
  reading.framing = body > reading.body ? 0 : reading.framing + used;
  reading.body = body;
  if (reading.framing <= limits_.header_bytes + arrival_.size()) return false;
  reading.error = too_large_head();
  return true;
}

// Feeds the parser until the end of the header or of the body. False if the client disconnected or `error` is set.
asio::awaitable<bool> Connection::read_until(Reading& reading, bool end_of_body) {
  auto& parser = reading.parser;
  while (!(end_of_body ? parser.is_done() : parser.is_header_done())) {
    size_t used = 0;
    if (inbox_.size() > 0) {
      if (!std::exchange(reading.started, true)) reading.deadline = Clock::now() + limits_.head;
      error_code failure;
      used = parser.put(inbox_.data(), failure);
      inbox_.consume(used);
      consumed_.notify();
      if (failure && failure != http::error::need_more) {
        reading.error = failure == http::error::header_limit ? too_large_head()
                        : failure == http::error::body_limit ? too_large_body(limits_.body_bytes)
                                                             : malformed_request(failure.message());
        co_return false;
      }
      if (end_of_body && has_too_much_framing(reading, used)) co_return false;
      if (end_of_body && !body_.grow_to(reading.body)) {
        reading.error = no_room_for_body();
        co_return false;
      }
      if (used > 0) continue;
    }
    if (gone_ || ended_) co_return false;
    bool more = co_await arrived_.wait_until(reading.deadline);
    if (!more) {
      if (reading.started) reading.error = request_timed_out();
      co_return false;
    }
  }
  co_return true;
}

asio::awaitable<void> Connection::end_with(HttpResponse response, const HttpRequest& request) {
  auto bytes = response_bytes(std::move(response), false, request);
  co_await write(bytes);
  // Closing with unread data would reset the connection and could lose the response: shut down sending and let the client close.
  transport_->finish_sending();
  auto deadline = Clock::now() + std::chrono::seconds(2);
  while (!gone_ && !ended_ && Clock::now() < deadline) {
    inbox_.consume(inbox_.size());
    consumed_.notify();
    bool more = co_await arrived_.wait_until(deadline);
    if (!more) break;
  }
  close();
}

asio::awaitable<bool> Connection::reject(const HttpRequest& request, HttpResponse refusal) {
  bool keep_alive = request.keep_alive && !draining_;
  auto bytes = response_bytes(std::move(refusal), keep_alive, request);
  bool written = co_await write(bytes);
  co_return written&& keep_alive;
}

std::optional<HttpResponse> Connection::refusal_of(const HttpRequest& head) {
  std::optional<HttpResponse> refusal;
  if (head.headers.size() > limits_.header_fields)
    refusal = too_large_head();
  else if (auto fault = fault_in(head))
    refusal = problem_response(*fault);
  else
    refusal = service_.refuse(head);
  if (refusal) service_.on_rejected(head, refusal->status);
  return refusal;
}

asio::awaitable<bool> Connection::read_request(std::optional<HttpRequest>& request) {
  Reading reading;
  auto& parser = reading.parser;
  parser.header_limit(static_cast<uint32_t>(limits_.header_bytes));
  parser.body_limit(std::max(limits_.body_bytes, limits_.large_body_bytes));
  reading.deadline = Clock::now() + limits_.idle;
  bool ready = co_await read_until(reading, false);
  busy_ = true;
  request_id_ = fresh_id("req-");
  HttpRequest head;
  if (!ready) {
    if (reading.error) co_await end_with(std::move(*reading.error), head);
    co_return false;
  }
  head = read_head(parser.get(), parser.keep_alive());
  request_id_ = request_id(head);
  auto refusal = refusal_of(head);
  auto length = parser.content_length();
  const bool large = limits_.large_body_bytes > 0 && head.path == limits_.large_body_path;
  const auto limit = large ? limits_.large_body_bytes : limits_.body_bytes;
  parser.body_limit(limit);
  if (!refusal && length && *length > limit) {
    refusal = too_large_body(limit);
    service_.on_rejected(head, refusal->status);
  }
  if (!refusal && length && !body_.grow_to(static_cast<size_t>(*length))) {
    refusal = no_room_for_body();
    service_.on_rejected(head, refusal->status);
  }
  if (refusal && !(parser.is_done() || (length && *length <= kDrainable))) {
    co_await end_with(std::move(*refusal), head);
    co_return false;
  }
  if (!refusal && lower_case(head.header("expect")) == "100-continue") co_await write("HTTP/1.1 100 Continue\r\n\r\n");
  reading.deadline = Clock::now() + limits_.body;
  bool complete = co_await read_until(reading, true);
  if (!complete) {
    if (reading.error) co_await end_with(std::move(*reading.error), head);
    co_return false;
  }
  if (refusal) co_return co_await reject(head, std::move(*refusal));
  head.body = std::move(parser.get().body());
  request = std::move(head);
  co_return true;
}

asio::awaitable<void> Connection::run() {
  auto self = shared_from_this();
  close_after(limits_.head);
  auto failure = co_await transport_->handshake();
  timeout_.cancel();
  if (failure || gone_) {
    close();
    co_return;
  }
  asio::co_spawn(executor_, keep_reading(), asio::detached);
  while (!gone_ && !draining_) {
    busy_ = false;
    body_.give_back();
    std::optional<HttpRequest> request;
    bool open = co_await read_request(request);
    if (!open) break;
    if (!request) continue;
    bool keep_alive = request->keep_alive;
    unanswered_ = true;
    interim_ = !request->http_1_0;
    schedule_probe();
    Exchange exchange(self, std::move(*request));
    co_await service_.handle(exchange);
    exchange.on_gone({});
    if (!exchange.complete() || !keep_alive) break;
  }
  close();
}

}  // namespace hone::serve
