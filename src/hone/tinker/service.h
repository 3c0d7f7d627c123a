// Common parts of the server and the gateway: their keys, their paths, and logging.
#pragma once
#include "hone/serve/http_service.h"
#include "hone/tinker/api/keys.h"

namespace hone::tinker {

namespace asio = boost::asio;

class TinkerService : public serve::HttpService {
 public:
  std::optional<serve::HttpResponse> refuse(const serve::HttpRequest& head) override;

 protected:
  // `http` and `keys` must outlive the service. `name`: "server", for messages.
  TinkerService(const serve::ServerConfig& http, const Keys& keys, const char* name);

  serve::HttpResponse error_response(const serve::ApiError& problem, const serve::HttpRequest& request) const override;
  bool is_authorized(const serve::HttpRequest& head) const override;
  void on_response(const serve::Exchange& exchange, double seconds) override;
  std::chrono::milliseconds drain_timeout() const override { return std::chrono::seconds(2); }  // accepted requests are stored

 private:
  const Keys& keys_;
  const char* name_;
};

}  // namespace hone::tinker
