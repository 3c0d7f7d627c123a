#include "hone/tinker/api/routes.h"

#include "hone/base/strings/percent.h"

namespace hone::tinker {
namespace {

constexpr bool kOpen = true, kAudited = true;

constexpr Route kRoutes[] = {
    {"GET", kHealth, nullptr, kOpen},
    {"POST", kRetrieveFuture, nullptr},
    {"GET", "/", status_page, kOpen},
    {"GET", "/status/{}", status_page, kOpen},
    {"GET", "/api/v1/status", status},
    {"GET", "/metrics", metrics},
    {"POST", "/api/v1/client/config", client_config},
    {"POST", "/api/v1/client/dynamic_config", dynamic_config},
    {"GET", "/api/v1/get_server_capabilities", capabilities},
    {"POST", "/api/v1/create_session", create_session, !kOpen, kAudited},
    {"POST", "/api/v1/session_heartbeat", session_heartbeat},
    {"POST", "/api/v1/telemetry", telemetry},
    {"GET", "/api/v1/sessions", list_sessions},
    {"GET", "/api/v1/sessions/{}", get_session},
    {"POST", "/api/v1/sessions/{}/finish", finish_session, !kOpen, kAudited},
    {"POST", "/api/v1/create_model", create_model, !kOpen, kAudited},
    {"POST", "/api/v1/get_info", get_info},
    {"POST", "/api/v1/unload_model", unload_model, !kOpen, kAudited},
    {"POST", "/api/v1/forward_backward", forward_backward},
    {"POST", "/api/v1/forward", forward},
    {"POST", "/api/v1/optim_step", optim_step},
    {"POST", "/api/v1/save_weights", save_weights, !kOpen, kAudited},
    {"POST", "/api/v1/save_weights_for_sampler", save_weights_for_sampler, !kOpen, kAudited},
    {"POST", "/api/v1/load_weights", load_weights, !kOpen, kAudited},
    {"POST", "/api/v1/create_sampling_session", create_sampling_session},
    {"GET", "/api/v1/samplers/{}", get_sampler},
    {"POST", "/api/v1/asample", asample},
    {"POST", "/api/v1/cancel_future", cancel_future},
    {"POST", "/api/v1/weights_info", weights_info},
    {"GET", "/api/v1/training_runs", list_runs},
    {"GET", "/api/v1/training_runs/{}", get_run},
    {"GET", "/api/v1/training_runs/{}/checkpoints", run_checkpoints},
    {"GET", "/api/v1/checkpoints", all_checkpoints},
    {"DELETE", "/api/v1/training_runs/{}/checkpoints/{}/{}", delete_checkpoint, !kOpen, kAudited},
    {"GET", "/api/v1/training_runs/{}/checkpoints/{}/{}/archive", archive_address, !kOpen, kAudited},
    {"POST", "/api/v1/training_runs/{}/checkpoints/{}/{}/publish", publish, !kOpen, kAudited},
    {"DELETE", "/api/v1/training_runs/{}/checkpoints/{}/{}/publish", unpublish, !kOpen, kAudited},
    {"PUT", "/api/v1/training_runs/{}/checkpoints/{}/{}/ttl", set_ttl, !kOpen, kAudited},
    {"GET", kArchive, nullptr, kOpen},
    {"POST", kTwinkleModel, nullptr},
    {"POST", kTwinkleSampler, nullptr},
    {"POST", kTwinkleProcessor, nullptr},
    {"GET", "/api/v1/twinkle/healthz", deep_health},
    {"GET", "/api/v1/twinkle/healthz/deep", deep_health},
    {"GET", "/api/v1/twinkle/capacity_info", capacity_info},
    {"GET", "/api/v1/twinkle/get_server_capabilities", capabilities},
    {"POST", "/api/v1/twinkle/create_session", create_session, !kOpen, kAudited},
    {"POST", "/api/v1/twinkle/session_heartbeat", session_heartbeat},
    {"GET", "/api/v1/twinkle/training_runs", list_runs},
    {"GET", "/api/v1/twinkle/training_runs/{}", get_run},
    {"GET", "/api/v1/twinkle/training_runs/{}/checkpoints", run_checkpoints},
    {"DELETE", "/api/v1/twinkle/training_runs/{}/checkpoints/{}/{}", delete_checkpoint, !kOpen, kAudited},
    {"POST", "/api/v1/twinkle/weights_info", weights_info},
    {"GET", "/api/v1/twinkle/checkpoint_path/{}/{}/{}", checkpoint_path},
    {"GET", "/api/v1/twinkle/status", status},
};

std::string_view next_part(std::string_view& path) {
  const auto part = path.substr(0, path.find('/'));
  path.remove_prefix(std::min(path.size(), part.size() + 1));
  return part;
}

std::optional<std::vector<std::string>> parts_of(std::string_view pattern, std::string_view path) {
  std::vector<std::string> parts;
  while (!pattern.empty() && !path.empty()) {
    const auto wanted = next_part(pattern);
    std::string given(next_part(path));
    const bool many = wanted == "{*}";
    if (!many && wanted != "{}" && wanted != given) return std::nullopt;
    if (!many && wanted != "{}") continue;
    while (many && !path.empty() && path.substr(0, path.find('/')) != pattern.substr(0, pattern.find('/')))
      given.append("/").append(next_part(path));
    auto decoded = percent_decoded(given);
    if (!decoded || decoded->empty()) return std::nullopt;
    parts.push_back(std::move(*decoded));
  }
  return pattern.empty() && path.empty() ? std::optional(std::move(parts)) : std::nullopt;
}

}  // namespace

RouteMatch find_route(std::string_view method, std::string_view path) {
  for (const auto& route : kRoutes) {
    if (route.method != method) continue;
    if (auto parts = parts_of(route.path, path)) return {&route, std::move(*parts)};
  }
  return {};
}

}  // namespace hone::tinker
