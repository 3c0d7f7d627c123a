#include "hone/serve/bench/client.h"

#include <boost/asio/connect.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "hone/base/error.h"

namespace hone::serve {
namespace {

namespace http = boost::beast::http;
using asio::ip::tcp;

double in_seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// The non-empty string value of `key`.
bool says_something(std::string_view line, std::string_view key) {
  auto at = line.find(key);
  if (at == line.npos) return false;
  line.remove_prefix(at + key.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line.size() > 1 && line[0] == '"' && line[1] != '"';
}

constexpr size_t kLongestReason = 200;

// A server's error message in any common form: {"error": {"message": …}}, {"error": …}, {"message": …}, {"detail": …}.
std::string reason_in(const Json& body) {
  for (const char* name : {"error", "message", "detail"}) {
    auto found = body.find(name);
    if (found == body.end() || found->is_null()) continue;
    if (found->is_object() && found->contains("message")) return reason_in(*found);
    return (found->is_string() ? found->get<std::string>() : dump(*found)).substr(0, kLongestReason);
  }
  return "";
}

// An error includes its status and, if given, the server's reason.
std::string refusal(int status, const std::string& body) {
  auto data = parse_json(body);
  auto reason = data && data->is_object() ? reason_in(*data) : "";
  return reason.empty() ? fmt::format("status {}", status) : fmt::format("status {}: {}", status, reason);
}

// The server's own counts, and its error.
void read_totals(std::string_view json, RequestResult& result) {
  auto data = parse_json(json);
  if (!data || !data->is_object()) return;
  if (data->contains("error")) result.error = reason_in(*data);
  if (auto usage = data->value("usage", Json()); usage.is_object()) {
    result.tokens = usage.value("completion_tokens", result.tokens);
    result.prompt_tokens = usage.value("prompt_tokens", int64_t{0});
  }
}

}  // namespace

asio::awaitable<std::string> BenchClient::connect() {
  auto executor = co_await asio::this_coro::executor;
  error_code failure;
  tcp::resolver resolver(executor);
  auto found = co_await resolver.async_resolve(url_.host, url_.port, asio::redirect_error(asio::use_awaitable, failure));
  if (failure) co_return failure.message();
  tcp::socket socket(executor);
  co_await asio::async_connect(socket, found, asio::redirect_error(asio::use_awaitable, failure));
  if (failure) co_return failure.message();
  socket.set_option(tcp::no_delay(true), failure);
  transport_ = url_.tls ? tls_transport(std::move(socket), *tls_, TlsSide::client) : plain_transport(std::move(socket));
  failure = co_await transport_->handshake();
  if (!failure) co_return "";
  transport_.reset();
  co_return failure.message();
}

// Searches only for the counted fields: parsing every event would take CPU time from the server under test.
void BenchClient::read_events(std::string_view events, RequestResult& result) {
  bool spoke = false;
  for (size_t at = 0; at < events.size();) {
    auto end = std::min(events.find('\n', at), events.size());
    auto line = events.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with("data: {")) continue;
    bool text = says_something(line, "\"content\":") || says_something(line, "\"reasoning_content\":") ||
                says_something(line, "\"arguments\":");
    result.tokens += text;
    spoke |= text;
    if (line.find("\"usage\":{") != line.npos || line.find("\"usage\": {") != line.npos || line.find("\"error\"") != line.npos)
      read_totals(line.substr(6), result);
  }
  if (!spoke) return;
  auto now = Clock::now();
  if (result.first == Clock::time_point())
    result.first = now;
  else
    result.gaps.push_back(in_seconds(now - result.last));
  result.last = now;
}

asio::awaitable<RequestResult> BenchClient::ask(std::string body, Clock::time_point sent) {
  RequestResult result{.sent = sent};
  std::string problem;
  if (!transport_) problem = co_await connect();
  if (!problem.empty()) {
    result.error = "no connection: " + problem;
    co_return result;
  }
  auto request = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n{}Content-Length: "
      "{}\r\n\r\n{}",
      url_.base + "/chat/completions", url_.host, url_.port,
      api_key_.empty() ? "" : fmt::format("Authorization: Bearer {}\r\n", api_key_), body.size(), body);
  http::response_parser<http::string_body> parser;
  parser.body_limit(1u << 30);
  parser.eager(true);
  boost::beast::flat_buffer inbox;
  size_t seen = 0;
  error_code failure;
  bool written = co_await transport_->write(asio::buffer(request));
  if (!written) failure = asio::error::broken_pipe;
  while (!failure && !parser.is_done()) {
    size_t count = co_await transport_->read_some(inbox.prepare(16u << 10));
    if (count == 0) {
      failure = asio::error::eof;
      if (parser.got_some()) parser.put_eof(failure);
      break;
    }
    inbox.commit(count);
    while (inbox.size() > 0 && !parser.is_done()) {
      size_t used = parser.put(inbox.data(), failure);
      inbox.consume(used);
      if (failure || used == 0) break;
    }
    if (failure == http::error::need_more) failure = {};
    const auto& text = parser.get().body();
    auto whole = text.rfind("\n\n");
    if (parser.is_header_done() && whole != text.npos && whole + 2 > seen) {
      read_events(std::string_view(text).substr(seen, whole + 2 - seen), result);
      seen = whole + 2;
    }
  }
  result.status = parser.is_header_done() ? static_cast<int>(parser.get().result_int()) : 0;
  bool done = !failure && parser.is_done();
  if (!done || !parser.get().keep_alive()) transport_.reset();
  if (!done && result.error.empty()) result.error = "the connection broke";
  if (done && result.status != 200) result.error = refusal(result.status, parser.get().body());
  if (done && result.status == 200 && result.first == Clock::time_point() && result.error.empty()) result.error = "no text";
  co_return result;
}

}  // namespace hone::serve
