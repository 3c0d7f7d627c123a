// What every handler works with: the model, the engine's thread, threads for preparation, metrics, adapters.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>

#include "hone/serve/admin/adapters.h"
#include "hone/serve/admin/metrics.h"
#include "hone/serve/chat/served_model.h"
#include "hone/serve/engine_loop.h"
#include "hone/serve/http/connection.h"
#include "hone/serve/http/problem.h"
#include "hone/serve/schema/body.h"

namespace hone::serve {

struct Context {
  const ServedModel& served;
  EngineLoop& loop;
  Metrics& metrics;
  Adapters& adapters;
  asio::thread_pool& workers;
  std::filesystem::path result_file;  // "" is none

  // Who answers to a request's `model`. Problem(404) for a name nobody serves.
  struct Target {
    std::string name;     // as the answer calls it
    std::string adapter;  // of the engine; "" is the bare model
  };
  Target target_of(const std::string& model) const;
  // Hands the answers to the engine and watches for the client leaving. Problem(429) when there is no room.
  std::shared_ptr<Generation> admit(Exchange& exchange, std::vector<engine::Request> requests);
  void check_room() const;  // the same refusal, before work is spent on a request
};

// Runs `work` on a worker thread, so that a large request holds up nobody; what it throws arrives here.
template <class Work>
asio::awaitable<std::invoke_result_t<Work>> aside(Context& context, Work work) {
  auto run = [](Work inner) -> asio::awaitable<std::invoke_result_t<Work>> { co_return inner(); };
  co_return co_await asio::co_spawn(context.workers, run(std::move(work)), asio::use_awaitable);
}

Json parsed_body(const HttpRequest& request);   // Problem(400) when it is no JSON object
std::string fresh_id(std::string_view prefix);  // "chatcmpl-…", not to be guessed
int64_t unix_time();

// Why an answer that ended with an error, or was interrupted, is not given.
Problem failure_of(const Event& event);
Problem interruption();

}  // namespace hone::serve
