// hone serve-tinker: one base model with the protocol of the tinker SDK.
#pragma once
#include "hone/serve/server.h"
#include "hone/tinker/api/call.h"
#include "hone/tinker/api/keys.h"

namespace hone::tinker {

struct TinkerConfig {
  serve::ServerConfig http;  // address, TLS, limits
  Keys keys;                 // all others are refused
  ModelConfig model;
  ApiConfig api;
};

// Serves until SIGTERM or SIGINT. Acknowledged requests survive a restart. `served` is the base model for OpenAI's API.
int run_tinker_server(model::CausalLM& model, engine::Engine& engine, const serve::ServedModel& served,
                      const TinkerConfig& config);

}  // namespace hone::tinker
