#include "hone/serve/http/head.h"

#include "hone/base/error.h"
#include "hone/base/strings/hex.h"
#include "hone/base/strings/lower_case.h"

#include <openssl/rand.h>

#include <algorithm>

namespace hone::serve {
namespace {

constexpr size_t kLongestId = 128, kIdBytes = 12;

// "http://host:port/path?query", as clients of a proxy write it: its host takes precedence.
void read_target(std::string_view target, HttpRequest& head) {
  auto scheme = lower_case(target.substr(0, std::min<size_t>(target.size(), 8)));
  size_t skipped = scheme.starts_with("http://") ? 7 : scheme.starts_with("https://") ? 8 : 0;
  if (skipped > 0) {
    target.remove_prefix(skipped);
    auto authority = target.substr(0, target.find_first_of("/?"));
    target.remove_prefix(authority.size());
    for (auto& [name, value] : head.headers)
      if (name == "host") value = authority;
  }
  auto mark = std::min(target.find('?'), target.size());
  head.path = mark == 0 && skipped > 0 ? "/" : target.substr(0, mark);
  if (mark < target.size()) head.query = target.substr(mark + 1);
}

}  // namespace

HttpRequest read_head(const boost::beast::http::request_header<boost::beast::http::fields>& parsed, bool keep_alive) {
  HttpRequest head;
  head.method = parsed.method_string();
  head.head_only = head.method == "HEAD";
  if (head.head_only) head.method = "GET";
  head.http_1_0 = parsed.version() < 11;
  head.keep_alive = keep_alive;
  for (const auto& field : parsed)
    head.headers.emplace_back(lower_case({field.name_string().data(), field.name_string().size()}), std::string(field.value()));
  read_target({parsed.target().data(), parsed.target().size()}, head);
  return head;
}

std::optional<ApiError> fault_in(const HttpRequest& head) {
  auto hosts = std::ranges::count_if(head.headers, [](const auto& header) { return header.first == "host"; });
  if (hosts > 1) return ApiError(400, "the request names more than one Host", "", "bad_http");
  if (hosts == 0 && !head.http_1_0) return ApiError(400, "the request names no Host", "", "bad_http");
  for (const auto& [name, value] : head.headers) {
    if (name != "transfer-encoding") continue;
    if (head.http_1_0) return ApiError(400, "HTTP/1.0 has no Transfer-Encoding", "", "bad_http");
    if (lower_case(value) != "chunked") return ApiError(400, "of Transfer-Encoding only \"chunked\" is read", "", "bad_http");
    if (!head.header("content-length").empty())
      return ApiError(400, "the request has both Transfer-Encoding and Content-Length", "", "bad_http");
  }
  auto encoding = lower_case(head.header("content-encoding"));
  if (!encoding.empty() && encoding != "identity")
    return ApiError(415, "the body is compressed; send it as it is, without Content-Encoding", "", "unsupported_encoding");
  return std::nullopt;
}

std::string fresh_id(std::string_view prefix) {
  unsigned char bytes[kIdBytes];
  HONE_CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
  return std::string(prefix) + hex_digits({reinterpret_cast<const char*>(bytes), sizeof bytes});
}

bool is_fresh_id(std::string_view id) { return id.size() == 2 * kIdBytes && id.find_first_not_of("0123456789abcdef") == id.npos; }

std::string request_id(const HttpRequest& head) {
  auto given = head.header("x-request-id");
  auto plain = [](unsigned char c) { return c < 0x80 && (std::isalnum(c) || c == '-' || c == '_' || c == '.'); };
  bool usable = !given.empty() && given.size() <= kLongestId && std::ranges::all_of(given, plain);
  return usable ? std::string(given) : fresh_id("req-");
}

}  // namespace hone::serve
