// Calls of Twinkle's client to a model and a sampler. Each waits for its result. I/O thread.
#pragma once
#include "hone/serve/context.h"
#include "hone/tinker/api/call.h"
#include "hone/tinker/twinkle/adapter.h"
#include "hone/tinker/twinkle/inputs.h"
#include "hone/tinker/twinkle/processors.h"

namespace hone::tinker {

class TwinkleApi {
 public:
  TwinkleApi(const serve::ServedModel& served, Services& services, serve::Workers& workers)
      : served_(served), services_(services), workers_(workers), processors_(served, services.config.dataset_root) {}

  // call.parts: the model's name, the verb.
  asio::awaitable<serve::HttpResponse> handle_model(serve::Exchange& exchange, const Call& call);
  asio::awaitable<serve::HttpResponse> handle_sampler(serve::Exchange& exchange, const Call& call);
  // call.parts: the verb.
  asio::awaitable<serve::HttpResponse> handle_processor(const Call& call);

 private:
  // One call on one adapter.
  struct ActiveCall {
    serve::Exchange& exchange;
    const Call& call;
    Json body;
    std::string run;
    TwinkleAdapter adapter;
  };
  void require_model(const Call& call) const;
  ActiveCall begin(serve::Exchange& exchange, const Call& call);
  void keep(const ActiveCall& active);
  Json add_adapter(const Call& call, const Json& body);
  // Submits a request of the run and waits; returns its result.
  asio::awaitable<std::string> perform(ActiveCall& active, const char* kind, std::string body, int64_t tokens = 0);
  asio::awaitable<Json> perform_json(ActiveCall& active, const char* kind, Json body);

  asio::awaitable<Json> forward_backward(ActiveCall& active);
  asio::awaitable<Json> forward_only(ActiveCall& active);
  asio::awaitable<Json> clip_grad_norm(ActiveCall& active);
  asio::awaitable<Json> step(ActiveCall& active);
  asio::awaitable<Json> zero_grad(ActiveCall& active);
  asio::awaitable<Json> clip_grad_and_step(ActiveCall& active);
  asio::awaitable<Json> save(ActiveCall& active);
  asio::awaitable<Json> load(ActiveCall& active);
  asio::awaitable<Json> resume_from_checkpoint(ActiveCall& active);
  asio::awaitable<Json> upload_to_hub(const Call& call);
  static Json lr_step(ActiveCall& active);
  static Json calculate_metric(ActiveCall& active);
  asio::awaitable<Json> dispatch(ActiveCall& active, const std::string& verb);
  struct AskedSample {
    std::vector<text::TokenId> prompt;
    std::string id;
  };
  asio::awaitable<Json> sample(serve::Exchange& exchange, const Call& call);
  void queue_samples(const Call& call, std::vector<AskedSample>& asked);
  asio::awaitable<Json> samples_of(serve::Exchange& exchange, const Call& call, const std::vector<AskedSample>& asked);
  Json sampled(const std::vector<text::TokenId>& prompt, const Json& response) const;

  const serve::ServedModel& served_;
  Services& services_;
  serve::Workers& workers_;
  TwinkleProcessors processors_;
  serve::Workers uploads_{1};  // a slow hub must not hold the threads that serve requests
  int uploading_ = 0;
};

inline constexpr std::chrono::seconds kLookAgain{30};  // whether the client is still there
// Both throw RequestError.
[[noreturn]] void refuse_call(const std::string& verb, const char* instead);
std::string adapter_name_in(const Json& body);
Json result_json(Json value);  // {"result": value}

// twinkle://run/weights/name is this server's tinker://run/weights/name.
std::string tinker_path(const std::string& path);
std::string twinkle_path(const std::string& path);

}  // namespace hone::tinker
