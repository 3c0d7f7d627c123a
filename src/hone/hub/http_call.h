// One HTTP call to a server that a person named: any status is an answer. Two builds do it: with libcurl, and without, which only
// explains.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace hone::hub {

struct HttpCall {
  std::string address;
  std::string method = "GET";
  std::string body = {};
  std::string content_type = "application/json";
  std::string bearer_token = {};            // sent to this host alone
  std::chrono::seconds timeout{60};         // without a byte
  std::function<bool()> is_cancelled = {};  // asked while it lasts; true ends it
};

struct HttpAnswer {
  long status = 0;   // 0: there was none, and `failure` says why
  std::string body;  // of a refusal at most its first 64 KiB
  std::string failure;
  bool ok() const { return status >= 200 && status < 300; }
};

// Through no proxy and to no other address. Tries once.
HttpAnswer http_call(const HttpCall& call);

}  // namespace hone::hub
