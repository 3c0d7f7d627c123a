// Sends a JSON text and reads the response. Two implementations: with libcurl, and without, which only reports an error.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace hone::hub {

struct PostAddress {
  std::string host, path;     // the path without slashes around it
  bool this_machine = false;  // localhost, ::1 or 127.0.0.0/8, by name or number alone: no name server is asked
  std::string shown;          // without user name, password and query
};
// Nothing for an invalid http or https URL.
std::optional<PostAddress> read_address(const std::string& address);

struct PostOptions {
  std::chrono::seconds timeout{60};    // all tries together
  std::function<bool()> is_cancelled;  // asked while it lasts
  std::string bearer_token = {};       // sent to this host alone
};
class PostCancelled : public std::runtime_error {
 public:
  PostCancelled() : std::runtime_error("it was cancelled") {}
};

// Without proxies or redirects. Retries transient failures (no connection, 429, 5xx), so the text may arrive twice. Throws
// PostCancelled, or std::runtime_error with the reason if there is no 2xx response.
std::string post_json(const std::string& address, const std::string& body, const PostOptions& posting);

// Opens and closes a connection, retrying until the timeout: a server started together with the run may need a moment. Throws
// std::runtime_error with the reason.
void require_listener(const std::string& address, std::chrono::seconds timeout = std::chrono::seconds(5));

}  // namespace hone::hub
