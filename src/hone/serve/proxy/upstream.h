// Another server: the way of one request there and of its answer back, as it comes.
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

// The code of an ApiError(502) when not even a connection could be made.
inline constexpr const char* kNoConnection = "no_connection";

struct UpstreamLimits {
  std::chrono::seconds time{30};
  size_t body_bytes = 64u << 20;
};

class Upstream {
 public:
  Upstream(Url url, const TrustedCertificates& trusted);

  // Hands the request on and the answer back to `exchange`: events one by one, a long answer in pieces, anything else whole.
  // Throws ApiError(502) without an answer.
  asio::awaitable<void> forward(Exchange& exchange, UpstreamRequest request);
  // The whole answer. Cancelled when `asker` leaves, if there is one. Throws ApiError(502) without an answer in time.
  asio::awaitable<HttpResponse> ask(UpstreamRequest request, UpstreamLimits limits, Exchange* asker = nullptr);

 private:
  asio::awaitable<std::shared_ptr<Transport>> connect();
  std::string bytes_of(const UpstreamRequest& request) const;

  Url url_;
  std::shared_ptr<asio::ssl::context> tls_;
};

}  // namespace hone::serve
