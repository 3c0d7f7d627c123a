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

// A folder has the runs of one base model, which continue on its weights only. Reports another server, another model and damaged
// state before a model is loaded.
void check_state_folder(const std::filesystem::path& root, const std::string& base_model);
// Serves until SIGTERM or SIGINT. Acknowledged requests survive a restart. `served` is the base model for OpenAI's API.
int run_tinker_server(model::CausalLM& model, engine::Engine& engine, const serve::ServedModel& served,
                      const TinkerConfig& config);

}  // namespace hone::tinker
