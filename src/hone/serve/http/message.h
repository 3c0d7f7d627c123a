// An HTTP request and a complete HTTP response, as handlers see them: plain values, no library types.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/base/json.h"

namespace hone::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;   // without the query; nothing is decoded or normalized, so a spelling matches a route or does not
  std::string query;  // after the '?'
  Headers headers;    // names in lower case
  std::string body;
  bool http_1_0 = false;
  bool head_only = false;  // HEAD: a GET whose response has no body
  bool keep_alive = true;

  // The first header of that name, "" when absent. `name` in lower case.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers;
};

std::string_view reason_phrase(int status);
HttpResponse json_response(const Json& body, int status = 200);

// The response's head and body as bytes. A negative `content_length` announces a chunked body.
std::string response_head(const HttpResponse& response, int64_t content_length, bool keep_alive, bool http_1_0);

// Dumps untrusted text without throwing: invalid bytes become U+FFFD.
std::string dump(const Json& value);

}  // namespace hone::serve
