// One `hone serve-tinker` behind the gateway: its availability, models and address. I/O thread.
#pragma once
#include <vector>

#include "hone/serve/http/api_error.h"
#include "hone/serve/proxy/upstream.h"

namespace hone::tinker {

namespace asio = boost::asio;

class Worker {
 public:
  Worker(size_t number, const std::string& url, const serve::TrustedCertificates& trusted);

  size_t number() const { return number_; }  // appears in addresses that clients get
  const std::string& url() const { return url_; }
  bool is_alive() const { return alive_; }
  uint64_t requests() const { return requests_; }
  uint64_t failures() const { return failures_; }  // connections that broke

  // Its supported_models, as last reported; null before the first report.
  const Json& models() const { return models_; }
  void set_models(Json models) { models_ = std::move(models); }
  bool has_model(std::string_view name) const;

  // Polls its health until the worker is removed.
  static asio::awaitable<void> watch(std::shared_ptr<Worker> worker);
  void remove();
  // True once it responds; false on timeout.
  asio::awaitable<bool> until_alive(serve::Clock::time_point deadline);

  // Both throw ApiError(502) if the connection breaks. If there is none, the worker counts as unavailable until it responds
  // again.
  asio::awaitable<serve::HttpResponse> ask(serve::UpstreamRequest request, serve::UpstreamLimits limits,
                                           serve::Exchange* asker = nullptr);
  asio::awaitable<void> forward(serve::Exchange& exchange, serve::UpstreamRequest request);

 private:
  void set_alive(bool alive, const std::string& why = {});
  void note_failure(const serve::ApiError& problem);

  size_t number_;
  std::string url_;
  serve::Upstream upstream_;
  bool alive_ = false, removed_ = false, was_seen_ = false;
  uint64_t requests_ = 0, failures_ = 0;
  Json models_;
  std::vector<std::shared_ptr<serve::Signal>> waiting_;
};

}  // namespace hone::tinker
