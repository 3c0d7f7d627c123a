// One HTTP request to a server configured by the user: any status is a result. Two implementations: with libcurl, and without,
// which only reports an error.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hone::hub {

struct HttpCall {
  std::string address;
  std::string method = "GET";
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<std::string> headers = {};    // "Name: value", besides those of the fields
  std::string bearer_token = {};            // sent to this host alone
  std::chrono::seconds timeout{60};         // without a byte
  std::chrono::seconds total_timeout{0};    // after which it ends, however busy; 0: none
  size_t longest = size_t{256} << 20;       // bytes of a response
  std::function<bool()> is_cancelled = {};  // polled while it lasts; true ends it
  // Called with what has arrived of a 2xx response; true ends it as complete, for event streams that their server keeps open.
  std::function<bool(std::string_view body)> is_complete = {};
};

struct HttpResponse {
  long status = 0;      // 0: there was none, and `failure` says why
  std::string body;     // of a refusal at most its first 64 KiB
  std::string failure;  // the status with the server's message, or why there was no response; empty after a 2xx
  std::map<std::string, std::string> headers = {};  // names in lower case; of a 2xx response
  bool ok() const { return status >= 200 && status < 300; }
};

// Without a proxy or redirects. A single attempt.
HttpResponse http_call(const HttpCall& call);

}  // namespace hone::hub
