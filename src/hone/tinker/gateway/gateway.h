// hone serve-tinker --worker_urls: one address for several tinker servers, each with its own base model.
#pragma once
#include "hone/serve/server.h"
#include "hone/tinker/api/keys.h"
#include "hone/tinker/gateway/directory.h"

namespace hone::tinker {

struct GatewayConfig {
  serve::ServerConfig http;  // address, TLS, limits
  Keys keys;                 // all others are refused; the workers have the same
  DirectoryConfig workers;
};

// Serves until SIGTERM or SIGINT.
int run_tinker_gateway(const GatewayConfig& config);

}  // namespace hone::tinker
