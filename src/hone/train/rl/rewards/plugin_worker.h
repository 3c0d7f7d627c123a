// A worker process that runs Python plugins. hone sends requests over a pipe, kills it after a timeout and restarts it.
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
  // Does not start the process yet. `names` are those of rewards; `also` are other names that the plugins must register.
  PluginWorker(PluginConfig config, std::vector<std::string> names, Json also = Json::object());
  ~PluginWorker();
  PluginWorker(const PluginWorker&) = delete;

  // Starts it if needed and returns the class or function name of each registered name. Throws UserError(usage) if a file cannot
  // be loaded or does not register a name.
  const std::map<std::string, std::string>& titles();
  // Its start-up message: "ready", the titles, and "binary", the loss scales that only mask.
  const Json& greeting();
  // The rewards of one call with {"keywords", "rounds"}, null where there is none; or an error, after which the worker may have
  // ended: the next call restarts it. `is_cancelled` is polled meanwhile.
  Result<Json> call(const std::string& name, Json request, const std::function<bool()>& is_cancelled);
  // Calls the plugin for rows, one after the other: for each its result or an error. A row that kills the worker or exceeds the
  // timeout is an error, and a new worker continues with the next row. If `is_cancelled` ends it, the remaining rows are errors.
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
  int process_ = -1, requests_ = -1, responses_ = -1;
  std::string buffered_;
  int64_t starts_ = 0;
};

}  // namespace hone::train::rl
