#include "hone/serve/proxy/upstream.h"

#include <boost/asio/connect.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>

#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::chrono::seconds kTimeToConnect{10}, kTimeToGreet{10};
constexpr size_t kLongestWhole = 8u << 20, kPieceRead = 64u << 10;

constexpr const char* kTooLong = "it takes too long";

ApiError gateway_error(const std::string& why, const char* code = "bad_gateway") {
  return ApiError(502, fmt::format("no response from the upstream server: {}", why), "", code);
}

// Ends an operation on timeout by closing its connection.
class TimeLimit {
 public:
  TimeLimit(const asio::any_io_executor& executor, std::chrono::seconds time, std::function<void()> close)
      : timer_(executor, time) {
    timer_.async_wait([passed = passed_, close = std::move(close)](const error_code& cancelled) {
      if (cancelled) return;
      *passed = true;
      close();
    });
  }
  bool passed() const { return *passed_; }

 private:
  std::shared_ptr<bool> passed_ = std::make_shared<bool>(false);
  asio::steady_timer timer_;
};

// A response in progress.
class IncomingResponse {
 public:
  explicit IncomingResponse(Transport& transport) : transport_(transport) {
    parser_.eager(true);
    parser_.body_limit(boost::none);
  }

  // Waits for more of it. Throws ApiError(502) if the connection breaks.
  asio::awaitable<void> read() {
    error_code failure;
    size_t count = co_await transport_.read_some(inbox_.prepare(kPieceRead));
    if (count == 0) {
      if (!parser_.got_some())
        throw gateway_error("the connection broke before its response");  // put_eof asserts that there is one
      parser_.put_eof(failure);
      if (failure || !parser_.is_done()) throw gateway_error("the connection broke");
      co_return;
    }
    inbox_.commit(count);
    while (inbox_.size() > 0 && !parser_.is_done() && !failure) {
      size_t used = parser_.put(inbox_.data(), failure);
      inbox_.consume(used);
      if (used == 0) break;
    }
    if (failure && failure != http::error::need_more) throw gateway_error(failure.message());
  }

  asio::awaitable<void> read_head() {
    while (!parser_.is_header_done()) co_await read();
  }
  bool done() const { return parser_.is_done(); }
  bool is_events() const { return status() == 200 && type().starts_with("text/event-stream"); }
  bool is_short() const {
    const auto length = parser_.content_length();
    return done() || (length && *length <= kLongestWhole);
  }
  std::string take() { return std::exchange(parser_.get().body(), {}); }  // data received since the last call

  // Status, content type, and the headers that are relevant to the client.
  HttpResponse head() const {
    HttpResponse head{.status = status(), .content_type = type()};
    for (const auto* name : {"Location", "Retry-After", "WWW-Authenticate"})
      if (auto value = parser_.get()[name]; !value.empty()) head.headers.emplace_back(name, std::string(value));
    return head;
  }

  asio::awaitable<HttpResponse> whole(size_t largest) {
    auto response = head();
    response.body = take();
    while (!done()) {
      co_await read();
      response.body += take();
      if (response.body.size() > largest) throw gateway_error("its response has no end");
    }
    co_return response;
  }

 private:
  int status() const { return static_cast<int>(parser_.get().result_int()); }
  std::string type() const { return std::string(parser_.get()[http::field::content_type]); }

  Transport& transport_;
  http::response_parser<http::string_body> parser_;
  boost::beast::flat_buffer inbox_;
};

asio::awaitable<void> forward_in_pieces(Exchange& exchange, IncomingResponse& incoming) {
  bool listening = false;
  if (incoming.is_events()) {
    listening = co_await exchange.start_events();
  } else {
    auto head = incoming.head();
    listening = co_await exchange.start_stream(std::move(head));
  }
  for (auto piece = incoming.take(); listening; piece = incoming.take()) {
    listening = co_await exchange.send(piece);
    if (!listening) co_return;
    if (incoming.done()) break;
    co_await incoming.read();
  }
  if (listening) co_await exchange.finish_events();
}

}  // namespace

Upstream::Upstream(Url url, const TrustedCertificates& trusted)
    : url_(std::move(url)), tls_(url_.tls ? tls_trusting_context(trusted) : nullptr) {}

asio::awaitable<std::shared_ptr<Transport>> Upstream::connect() {
  auto executor = co_await asio::this_coro::executor;
  error_code failure;
  tcp::resolver resolver(executor);
  auto found = co_await resolver.async_resolve(url_.host, url_.port, asio::redirect_error(asio::use_awaitable, failure));
  if (failure) throw gateway_error(failure.message(), kNoConnection);
  auto socket = std::make_shared<tcp::socket>(executor);
  {
    TimeLimit limit(executor, kTimeToConnect, [socket] {
      error_code ignored;
      socket->close(ignored);
    });
    co_await asio::async_connect(*socket, found, asio::redirect_error(asio::use_awaitable, failure));
    if (failure) throw gateway_error(limit.passed() ? kTooLong : failure.message(), kNoConnection);
  }
  socket->set_option(tcp::no_delay(true), failure);
  std::shared_ptr<Transport> transport =
      tls_ ? trusting_transport(std::move(*socket), *tls_, url_.host) : plain_transport(std::move(*socket));
  TimeLimit limit(executor, kTimeToGreet, [transport] { transport->close(); });
  failure = co_await transport->handshake();
  if (failure) throw gateway_error(limit.passed() ? kTooLong : failure.message(), kNoConnection);
  co_return transport;
}

std::string Upstream::bytes_of(const UpstreamRequest& request) const {
  auto bytes = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n", request.method,
                           url_.base, request.path, url_.authority(), request.body.size());
  for (const auto& [name, value] : request.headers) fmt::format_to(std::back_inserter(bytes), "{}: {}\r\n", name, value);
  return bytes.append("\r\n").append(request.body);
}

asio::awaitable<void> Upstream::forward(Exchange& exchange, UpstreamRequest request) {
  auto transport = co_await connect();
  exchange.on_gone([transport] { transport->close(); });  // the client has left: the other server need not continue
  auto bytes = bytes_of(request);
  bool sent = co_await transport->write(asio::buffer(bytes));
  if (!sent) throw gateway_error("the connection broke");
  IncomingResponse incoming(*transport);
  co_await incoming.read_head();
  if (!exchange.request().head_only && (incoming.is_events() || !incoming.is_short())) {
    co_await forward_in_pieces(exchange, incoming);
  } else {
    auto response = co_await incoming.whole(kLongestWhole);
    co_await exchange.respond(std::move(response));
  }
  exchange.on_gone({});
}

asio::awaitable<HttpResponse> Upstream::ask(UpstreamRequest request, UpstreamLimits limits, Exchange* asker) {
  auto transport = co_await connect();
  auto executor = co_await asio::this_coro::executor;
  TimeLimit limit(executor, limits.time, [transport] { transport->close(); });
  if (asker) asker->on_gone([transport] { transport->close(); });
  try {
    auto bytes = bytes_of(request);
    bool sent = co_await transport->write(asio::buffer(bytes));
    if (!sent) throw gateway_error("the connection broke");
    IncomingResponse incoming(*transport);
    co_await incoming.read_head();
    auto response = co_await incoming.whole(limits.body_bytes);
    if (asker) asker->on_gone({});
    co_return response;
  } catch (const ApiError& problem) {
    if (asker) asker->on_gone({});
    throw limit.passed() ? gateway_error(kTooLong) : problem;
  }
}

}  // namespace hone::serve
