// Another server with OpenAI's interface: the way of one request there and of its answer back, as it comes.
#pragma once
#include <memory>
#include <string>

#include "hone/serve/http/connection.h"
#include "hone/serve/http/url.h"

namespace hone::serve {

class Upstream {
 public:
  // `key` goes with every request; empty: none does.
  Upstream(Url url, std::string key, const TrustedCertificates& trusted);

  // Hands the exchange's request on to `path` below the interface's base and the answer back: events one by one, anything else
  // whole. Throws Problem(502) when nobody answers.
  asio::awaitable<void> forward(Exchange& exchange, std::string path);
  // GET of a small answer, which does not take long. `status` is the server's. Throws Problem(502) when it does, or nobody
  // answers.
  asio::awaitable<HttpResponse> get(std::string path);

 private:
  asio::awaitable<std::shared_ptr<Transport>> connect();
  std::string head_of(const std::string& method, const std::string& path, size_t body_bytes) const;

  Url url_;
  std::string key_;
  std::shared_ptr<asio::ssl::context> tls_;
};

}  // namespace hone::serve
