#include "hone/serve/context.h"

#include <ctime>

namespace hone::serve {

Context::Target Context::target_of(const std::string& model) const {
  if (adapters.knows(model)) {
    const auto& in_engine = adapters.entries().at(model).in_engine;
    return {model, in_engine.empty() ? model : in_engine};
  }
  if (model.empty() || model == served.name || served.any_name) return {served.name, served.base_adapter};
  throw ApiError(404, fmt::format("the model \"{}\" does not exist here; /v1/models lists what does", model.substr(0, 128)),
                 "model", "model_not_found");
}

std::shared_ptr<Generation> Context::admit(Exchange& exchange, Admission::Permit& permit, std::vector<engine::Request> requests) {
  if (served.pool) throw ApiError(400, fmt::format("{} is not a generative model", served.name), "model", "wrong_task");
  admission.check_fits(EngineLoop::load_of(requests));
  permit.leave();
  auto generation = loop.submit(std::move(requests));
  if (!generation) admission.refuse();
  exchange.on_gone([weak = std::weak_ptr(generation)] {
    if (auto alive = weak.lock()) alive->interrupt();
  });
  generation->on_overrun([&exchange] { exchange.disconnect(); });  // the exchange outlives its responses
  return generation;
}

void require_client(const Exchange& exchange) {
  if (exchange.gone()) throw ApiError(499, "the client disconnected");
}

Json parsed_body(const Exchange& exchange) {
  require_client(exchange);
  auto body = parse_body(exchange.request().body);
  if (!body) throw ApiError(400, body.error(), "", "invalid_json");
  return std::move(*body);
}

int64_t unix_time() { return static_cast<int64_t>(std::time(nullptr)); }

ApiError failure_of(const Event& event) {
  if (event.refused) return {400, event.output.error, "", "invalid_value"};
  return {500, "the model could not generate; the request may be sent again", "", "engine_error"};
}

ApiError interruption() {
  ApiError problem(503, "the server is shutting down", "", "shutting_down");
  problem.retry_after = 5;
  return problem;
}

}  // namespace hone::serve
