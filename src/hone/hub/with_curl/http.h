// GET, POST and PUT over libcurl: redirects only to http(s), secrets only for the first host, streamed bodies.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hone/hub/with_curl/http_failure.h"

namespace hone::hub {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;
  std::vector<std::string> secrets;  // headers that no other host than the url's may see
  std::chrono::seconds read_timeout{30};
  std::string method = "GET";
  std::string body = {};                 // what a POST carries
  std::filesystem::path body_file = {};  // or this file, of which a part can be sent
  uintmax_t body_begin = 0, body_length = 0;
  std::chrono::milliseconds total_timeout{0};  // after which it ends, redirects included, however busy; 0: none
  bool direct = false;                         // to this address alone: through no proxy, and no redirect is followed
  bool no_proxy = false;                       // redirects are followed
  bool public_only = false;                    // no address of this machine or its network, also after redirects
  std::vector<std::string> hosts = {};         // these alone, also after redirects; empty: any
  std::function<bool()> is_cancelled = {};     // polled while it lasts; true ends it
  std::function<bool(std::string_view body)> is_complete = {};  // of get(): called with what has arrived; true ends it
};

struct HttpReply {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // of refusals, and of get()
  std::string header(const std::string& name) const;
};

// Receives a body. `begin` gets the header of the response. Both may throw, which ends the transfer.
struct HttpBody {
  std::function<void(const HttpReply& head)> begin;
  std::function<void(std::span<const char> bytes)> write;
};

// One connection at a time; not thread-safe.
class Http {
 public:
  Http();
  ~Http();
  Http(const Http&) = delete;

  // Throws HttpFailure unless a complete 2xx response arrived.
  void fetch(const HttpRequest& request, const HttpBody& body);
  HttpReply get(const HttpRequest& request, size_t limit);

 private:
  HttpReply perform(const HttpRequest& request, const HttpBody& body, bool with_secrets);
  void* curl_;
};

// For `total_timeout`, where 0 means none: at least a millisecond.
std::chrono::milliseconds time_until(std::chrono::steady_clock::time_point deadline);

// Before the first use of libcurl, by any caller.
void start_curl();

}  // namespace hone::hub
