// A worker process that runs Python plugins: started, asked over a pipe, killed when it takes too long, started again.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::train::rl {

struct PluginConfig {
  std::vector<std::string> files;   // Python files that register rewards, schedulers …: orms["name"] = Class
  std::string python = "python3";   // the interpreter, by name or path
  double timeout = 60;              // seconds for one call
  int64_t memory_limit = 0;         // bytes of address space; 0: none
  Json arguments = Json::object();  // the run's settings, which a plugin sees as `args`
};

class PluginWorker {
 public:
  // Nothing is started yet. `names` are those of rewards; `also` names what else the plugins must register.
  PluginWorker(PluginConfig config, std::vector<std::string> names, Json also = Json::object());
  ~PluginWorker();
  PluginWorker(const PluginWorker&) = delete;

  // Starts it if need be: what each name's class or function is called. Throws UserError(usage) where a file cannot be loaded or
  // registers no such name.
  const std::map<std::string, std::string>& titles();
  // What it said when it was started: "ready", the titles, and "binary", which loss scales only mask.
  const Json& greeting();
  // The rewards of one call, null where there is none; or why there are none, and then the worker may have ended: the next call
  // starts it again. `is_cancelled` is asked while it lasts.
  Result<Json> call(const std::string& name, const Json& keywords, const std::function<bool()>& is_cancelled);
  // Work on rows, one after the other: for each what the plugin returns, or why there is nothing. A row that ends the worker, or
  // takes longer than the time-out, is such a row; a new worker goes on behind it. Where `is_cancelled` ends it, the rest failed.
  std::vector<Result<Json>> each(const std::string& action, const std::vector<Json>& rows,
                                 const std::function<bool()>& is_cancelled);
  int64_t starts() const { return starts_; }
  const PluginConfig& config() const { return config_; }

 private:
  void start();
  void stop();
  std::string exit_reason();
  Result<bool> send(const Json& request, double seconds, const std::function<bool()>& is_cancelled);
  Result<Json> receive(double seconds, const std::function<bool()>& is_cancelled);
  Result<Json> exchange(const Json& request, double seconds, const std::function<bool()>& is_cancelled);
  Result<std::string> read_line(std::chrono::steady_clock::time_point deadline, double seconds,
                                const std::function<bool()>& is_cancelled);

  PluginConfig config_;
  std::vector<std::string> names_;
  Json also_, greeting_;
  std::map<std::string, std::string> titles_;
  int process_ = -1, requests_ = -1, answers_ = -1;
  std::string buffered_;
  int64_t starts_ = 0;
};

}  // namespace hone::train::rl
