// What every handler works with: the model, the engine's thread, threads for preparation, metrics, adapters.
#pragma once
#include "hone/serve/admin/adapters.h"
#include "hone/serve/admin/metrics.h"
#include "hone/serve/admission.h"
#include "hone/serve/chat/served_model.h"
#include "hone/serve/engine_loop.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/http/connection.h"
#include "hone/serve/http/head.h"
#include "hone/serve/schema/body.h"
#include "hone/serve/workers.h"

namespace hone::serve {

class WeightReceiver;

struct Context {
  const ServedModel& served;
  EngineLoop& loop;
  Metrics& metrics;
  Adapters& adapters;
  Admission& admission;
  Workers& workers;
  std::filesystem::path result_file;  // "" is none
  bool sleep_allowed = false;         // by requests
  WeightReceiver* weights = nullptr;  // of a server that follows a trainer; null: they are fixed

  // The model that a request names. Problem(404) for an unknown name.
  struct Target {
    std::string name;     // as the answer calls it
    std::string adapter;  // of the engine; "" is the bare model
  };
  Target target_of(const std::string& model) const;
  // Before any work is spent on a request. Problem(429) when the server is full.
  [[nodiscard]] Admission::Permit enter(const Exchange&) const { return admission.acquire(); }
  // Hands the answers to the engine, which counts them from here on, and watches for the client leaving. Problem(429) when there
  // is no room, 400 when there never will be.
  std::shared_ptr<Generation> admit(Exchange& exchange, Admission::Permit& place, std::vector<engine::Request> requests);
};

// Runs `work` on a worker thread, so that a large request delays no other; its exceptions are rethrown here.
template <class Work>
asio::awaitable<std::invoke_result_t<Work>> run_on_worker(Context& context, Work work) {
  return context.workers.run(std::move(work));
}

// Writes so many parts of an answer (texts, log-probabilities): many of them on a worker thread, a few inline.
template <class Write>
asio::awaitable<std::invoke_result_t<Write>> run_inline_or_on_worker(Context& context, size_t parts, Write write) {
  constexpr size_t kFew = 1024;
  if (parts <= kFew) co_return write();
  co_return co_await run_on_worker(context, std::move(write));
}

// Problem(400) when it is no JSON object. The first thing a worker does for a request: one whose client has left meanwhile ends
// here.
Json parsed_body(const Exchange& exchange);
int64_t unix_time();

// Why an answer that ended with an error, or was interrupted, is not given.
ApiError failure_of(const Event& event);
ApiError interruption();

}  // namespace hone::serve
