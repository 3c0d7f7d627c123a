#include "hone/serve/routes.h"

#include "hone/serve/admin/admin.h"
#include "hone/serve/anthropic/messages.h"
#include "hone/serve/openai/chat.h"
#include "hone/serve/openai/completions.h"
#include "hone/serve/openai/embeddings.h"
#include "hone/serve/openai/infer.h"
#include "hone/serve/openai/pooling.h"
#include "hone/serve/openai/responses.h"
#include "hone/serve/page/page.h"
#include "hone/serve/rollout/rollout.h"

namespace hone::serve {
namespace {

constexpr auto kEveryone = Audience::everyone, kKey = Audience::key_holders;

constexpr Route kRoutes[] = {
    {"GET", "/health", kEveryone, nullptr},
    {"GET", "/ping", kEveryone, nullptr},
    {"POST", "/ping", kEveryone, nullptr},
    {"GET", "/live", kEveryone, nullptr},
    {"GET", "/version", kKey, version},
    {"GET", "/metrics", kKey, metrics_page},
    {"GET", "/openapi.json", kKey, openapi},
    {"GET", "/v1/models", kKey, models},
    {"GET", "/v1/models/*", kKey, models},
    {"POST", "/v1/chat/completions", kKey, chat_completions},
    {"POST", "/v1/responses", kKey, responses},
    {"POST", "/v1/completions", kKey, completions},
    {"POST", "/v1/embeddings", kKey, embeddings},
    {"POST", "/v1/classify", kKey, classify},
    {"POST", "/classify", kKey, classify},
    {"POST", "/v1/rerank", kKey, rerank},
    {"POST", "/v2/rerank", kKey, rerank},
    {"POST", "/rerank", kKey, rerank},
    {"POST", "/v1/score", kKey, score_pairs},
    {"POST", "/score", kKey, score_pairs},
    {"POST", "/infer/", kKey, infer},
    {"POST", "/generate/", kKey, generate_rollout},
    {"POST", "/update_weights/", kKey, update_weights},
    {"POST", "/reset_prefix_cache/", kKey, reset_prefix_cache},
    {"GET", "/get_engine_type/", kKey, engine_type},
    {"GET", "/get_world_size/", kKey, world_size},
    {"POST", "/v1/score/evaluation", kKey, score_texts},
    {"POST", "/v1/messages", kKey, anthropic_messages},
    {"POST", "/v1/messages/count_tokens", kKey, anthropic_count_tokens},
    {"POST", "/tokenize", kKey, tokenize},
    {"POST", "/detokenize", kKey, detokenize},
    {"POST", "/v1/load_lora_adapter", kKey, load_adapter},
    {"POST", "/v1/unload_lora_adapter", kKey, unload_adapter},
    {"POST", "/sleep", kKey, put_to_sleep},
    {"POST", "/wake_up", kKey, wake_up},
    {"GET", "/is_sleeping", kKey, is_sleeping},
    {"GET", "/", kKey, page},
    {"GET", "/page/*", kKey, page},
};

bool matches(const Route& route, std::string_view path) {
  if (!route.path.ends_with('*')) return route.path == path;
  auto prefix = route.path.substr(0, route.path.size() - 1);
  return path.size() > prefix.size() && path.starts_with(prefix);
}

}  // namespace

std::span<const Route> all_routes() { return kRoutes; }

const Route* find_route(std::string_view method, std::string_view path) {
  for (const auto& route : kRoutes)
    if (route.method == method && matches(route, path)) return &route;
  return nullptr;
}

std::string methods_of(std::string_view path) {
  std::string methods;
  for (const auto& route : kRoutes) {
    if (!matches(route, path)) continue;
    if (!methods.empty()) methods += ", ";
    methods += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  return methods;
}

}  // namespace hone::serve
