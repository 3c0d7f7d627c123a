#include "hone/serve/http/message.h"

#include <fmt/format.h>

namespace hone::serve {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

HttpResponse json_response(const Json& body, int status) { return {.status = status, .body = dump(body)}; }

std::string response_head(const HttpResponse& response, int64_t content_length, bool keep_alive, bool http_1_0) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
  auto line = [&](std::string_view name, std::string_view value) {
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  };
  if (response.status != 204) line("Content-Type", response.content_type);
  if (content_length >= 0)
    line("Content-Length", fmt::to_string(content_length));
  else if (!http_1_0)
    line("Transfer-Encoding", "chunked");
  line("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : response.headers) line(name, value);
  line("Connection", keep_alive ? "keep-alive" : "close");
  return head += "\r\n";
}

}  // namespace hone::serve
