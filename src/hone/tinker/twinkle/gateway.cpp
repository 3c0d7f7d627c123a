// Server-wide requests of Twinkle's client; the tinker SDK sends the others too.
#include "hone/tinker/twinkle/twinkle_api.h"

namespace hone::tinker {

serve::HttpResponse capacity_info(Services& services, const Call&) {
  const auto most = services.config.max_adapters, used = static_cast<int64_t>(services.loop.stats().resident_runs);
  return serve::json_response({{"max_loras", most}, {"used_loras", used}, {"free_loras", most - used}});
}

serve::HttpResponse deep_health(Services& services, const Call&) {
  const bool healthy = !services.loop.engine().broken();
  return serve::json_response({{"healthy", healthy}, {"models", {{services.config.base_model, {{"healthy", healthy}}}}}},
                              healthy ? 200 : 503);
}

// Local folders are internal: the path is the one that load and sample accept.
serve::HttpResponse checkpoint_path(Services& services, const Call& call) {
  const auto path = fmt::format("tinker://{}/{}/{}", call.parts.at(0), call.parts.at(1), call.parts.at(2));
  if (!services.store.checkpoint(path, call.tenant)) throw not_found("checkpoint " + path);
  return serve::json_response({{"path", twinkle_path(path)}, {"twinkle_path", twinkle_path(path)}});
}

}  // namespace hone::tinker
