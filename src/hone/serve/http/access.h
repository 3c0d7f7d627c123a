// Authentication: API keys, and the origin of browser requests.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "hone/serve/http/api_error.h"

namespace hone::serve {

// Paths that a browser opens: the chat page and its files.
bool is_browser_request(const HttpRequest& request);
ApiError wrong_key();

class Access {
 public:
  // `host` is the address that the server listens on. "*" among the origins allows every page.
  Access(const std::string& api_key, const std::string& host, std::vector<std::string> allowed_origins);

  bool has_key() const { return has_key_; }
  // Bearer, x-api-key, or the password of Basic (which a browser prompts for). Constant time.
  bool has_valid_key(const HttpRequest& request) const;
  // A page on another site must not reach a server on this machine: neither through its own name for our address (Host), nor
  // across origins (Origin).
  std::optional<ApiError> wrong_origin(const HttpRequest& request) const;
  bool allows_origin(std::string_view origin) const;
  // The response to a request without the key: a browser prompts its user, a program gets the scheme.
  static HttpResponse unauthorized_response(HttpResponse refusal, const HttpRequest& request);
  void warn_if_unauthenticated() const;  // if everybody on the network has access

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view text);

  Digest key_{};
  bool has_key_, loopback_;
  std::string host_;
  std::vector<std::string> origins_;
};

}  // namespace hone::serve
