#include "hone/tinker/api/openai.h"

#include <algorithm>

#include "hone/base/log.h"

namespace hone::tinker {
namespace {

constexpr std::string_view kAnswered[] = {
    "/v1/models",    "/v1/models/*", "/v1/chat/completions",      "/v1/completions",
    "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/tokenize",
    "/detokenize",   "/version",
};

// The model named in the body; an invalid body is left to the handler.
std::string model_in(const serve::HttpRequest& request) {
  const auto body = parse_json(request.body);
  return body && body->is_object() && body->contains("model") && (*body)["model"].is_string()
             ? (*body)["model"].get<std::string>()
             : "";
}

void add_saved(Store& store, const std::string& tenant, serve::Adapters& adapters) {
  for (const auto& checkpoint : store.checkpoints(tenant, "", {1000, 0}))
    if (checkpoint.kind == "sampler_weights")
      adapters.add(checkpoint.path(), {checkpoint.folder, static_cast<int64_t>(checkpoint.created), true, checkpoint.folder});
}

}  // namespace

const serve::Route* OpenAiApi::find_route(std::string_view method, std::string_view path) {
  const auto* route = serve::find_route(method, path);
  return route && std::ranges::count(kAnswered, route->path) ? route : nullptr;
}

// Each request has its own list of adapters, without those its tenant may not use.
boost::asio::awaitable<void> OpenAiApi::dispatch(serve::Exchange& exchange, const serve::Route& route, std::string tenant) {
  serve::Adapters adapters({}, 0);
  std::shared_ptr<void> held;
  if (route.method == "GET") {
    co_await workers_.run([&] {
      add_saved(services_.store, tenant, adapters);
      return true;
    });
  } else {
    const auto model = co_await workers_.run([&] { return model_in(exchange.request()); });
    const auto folder = co_await workers_.run([&] { return saved_adapter(services_, tenant, model); });
    if (folder) {
      try {
        held = co_await services_.loop.hold_adapter(*folder);
      } catch (const UserError& problem) {
        log::error("{}: {}", model, problem.what());
        throw serve::ApiError(500, "the sampler's weights could not be loaded", "model", "engine_error");
      }
      adapters.add(model, {*folder, 0, true, *folder});
    }
  }
  serve::Context context{served_, services_.loop.engine(), services_.metrics, adapters, admission_, workers_, media_, {}};
  co_await route.handler(exchange, context);
}

}  // namespace hone::tinker
