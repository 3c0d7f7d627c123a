// An upstream server: forwards one request and streams its response back.
#pragma once
#include <memory>
#include <string>

#include "hone/serve/http/connection.h"
#include "hone/serve/http/url.h"

namespace hone::serve {

struct UpstreamRequest {
  std::string method, path;  // below the address, with the query
  Headers headers;           // Host, Connection and Content-Length are added
  std::string_view body;
};

// The code of an ApiError(502) if no connection could be made.
inline constexpr const char* kNoConnection = "no_connection";

struct UpstreamLimits {
  std::chrono::seconds time{30};
  size_t body_bytes = 64u << 20;
};

class Upstream {
 public:
  Upstream(Url url, const TrustedCertificates& trusted);

  // Forwards the request and its response to `exchange`: events one by one, a long response in chunks, anything else complete.
  // Throws ApiError(502) without a response.
  asio::awaitable<void> forward(Exchange& exchange, UpstreamRequest request);
  // The complete response. Cancelled when `asker` leaves, if given. Throws ApiError(502) on timeout.
  asio::awaitable<HttpResponse> ask(UpstreamRequest request, UpstreamLimits limits, Exchange* asker = nullptr);

 private:
  asio::awaitable<std::shared_ptr<Transport>> connect();
  std::string bytes_of(const UpstreamRequest& request) const;

  Url url_;
  std::shared_ptr<asio::ssl::context> tls_;
};

}  // namespace hone::serve
