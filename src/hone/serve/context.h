// Dependencies of every handler: the model, the engine's thread, worker threads, metrics, adapters.
#pragma once
#include "hone/serve/admin/adapters.h"
#include "hone/serve/admin/metrics.h"
#include "hone/serve/admission.h"
#include "hone/serve/chat/patch_row_cache.h"
#include "hone/serve/chat/served_model.h"
#include "hone/serve/engine_loop.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/http/connection.h"
#include "hone/serve/http/head.h"
#include "hone/serve/schema/body.h"
#include "hone/serve/workers.h"

namespace hone::serve {

class WeightReceiver;

// Threads for the media of requests, separate from those that handle text. Downloads mostly wait; decoding has as many threads as
// `workers`.
struct MediaThreads {
  Workers downloads{16}, decoders{2};
  PatchRowCache patch_rows{256u << 20};

  void join() { downloads.join(), decoders.join(); }
};

struct Context {
  const ServedModel& served;
  EngineLoop& loop;
  Metrics& metrics;
  Adapters& adapters;
  Admission& admission;
  Workers& workers;
  MediaThreads& media;
  std::filesystem::path result_file;  // "" is none
  bool sleep_allowed = false;         // by requests
  WeightReceiver* weights = nullptr;  // of a server that follows a trainer; null: they are fixed

  // The model named in a request. ApiError(404) for an unknown name.
  struct Target {
    std::string name;     // as the response names it
    std::string adapter;  // of the engine; "" is the bare model
  };
  Target target_of(const std::string& model) const;
  // Call it before any work on a request. ApiError(429) if the server is full.
  [[nodiscard]] Admission::Permit enter(const Exchange&) const { return admission.acquire(); }
  // Submits the sequences to the engine, which counts them from here on, and watches for the client leaving. ApiError(429) if
  // there is no room, 400 if there never will be.
  std::shared_ptr<Generation> admit(Exchange& exchange, Admission::Permit& permit, std::vector<engine::Request> requests);
};

// Runs `work` on a worker thread, so that a large request does not delay others; rethrows its exceptions.
template <class Work>
asio::awaitable<std::invoke_result_t<Work>> run_on_worker(Context& context, Work work) {
  return context.workers.run(std::move(work));
}

// Writes this many parts of a response (texts, log-probabilities): many of them on a worker thread, a few inline.
template <class Write>
asio::awaitable<std::invoke_result_t<Write>> run_inline_or_on_worker(Context& context, size_t parts, Write write) {
  constexpr size_t kFew = 1024;
  if (parts <= kFew) co_return write();
  co_return co_await run_on_worker(context, std::move(write));
}

// ApiError(499) if the client has left.
void require_client(const Exchange& exchange);
// ApiError(400) unless it is a JSON object. The first step of a worker for a request: stops if the client has left.
Json parsed_body(const Exchange& exchange);
int64_t unix_time();

// The error of a choice that failed or was interrupted.
ApiError failure_of(const Event& event);
ApiError interruption();

}  // namespace hone::serve
