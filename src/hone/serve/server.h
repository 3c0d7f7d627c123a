// The server: routes, authentication, start, shutdown, engine watchdog.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "hone/serve/chat/served_model.h"
#include "hone/serve/engine_loop.h"
#include "hone/serve/http/connection.h"

namespace hone::serve {

class WeightReceiver;

// Exit code if a step of the engine did not return.
inline constexpr int kHangExit = 9;

struct ServerConfig {
  std::string host = "127.0.0.1";
  int port = 8000;          // 0: any
  bool port_fixed = false;  // a port that is taken is an error; otherwise the next free one is used
  std::string api_key;
  std::string certificate_file, key_file;
  std::vector<std::string> allowed_origins;
  std::filesystem::path adapter_root;  // requests may load adapters below it; "" forbids that
  bool sleep_allowed = false;          // requests may put the engine to sleep and wake it
  size_t max_adapters = 64;            // and no more than this, those of the command line included
  HttpLimits http;
  EngineLoopLimits engine;
  std::chrono::milliseconds drain{30'000};      // for requests in progress when the server is to end
  std::chrono::milliseconds watchdog{300'000};  // for one step of the engine
  int log_interval = 20;                        // seconds between lines of statistics; 0: none
  bool log_requests = true;
  std::filesystem::path result_file;             // each chat and its response as a line of JSON; "" is none
  std::shared_ptr<WeightReceiver> weights = {};  // of a rollout server; null: they are fixed
  bool open_page = false;                        // log the address of the chat page (app)
};

// Throws UserError(usage) if a fixed port is taken: called before a model is loaded.
void require_port(const ServerConfig& config);

// Serves until SIGTERM or SIGINT, then drains. Exit code: 0, kHangExit, or ExitCode::failure if the engine is broken. `adapters`
// are already loaded: name to folder.
int run_server(engine::Engine& engine, const ServedModel& served, const ServerConfig& config,
               const std::map<std::string, std::filesystem::path>& adapters);

}  // namespace hone::serve
