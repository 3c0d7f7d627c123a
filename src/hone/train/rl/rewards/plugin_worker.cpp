#include "hone/train/rl/rewards/plugin_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "hone/base/child_process.h"
#include "hone/train/rl/rewards/plugin_builtins.h"
#include "hone/train/rl/rewards/plugin_script.h"

namespace hone::train::rl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kLongestResponse = size_t{64} << 20;
constexpr double kStartSeconds = 180;             // importing a plugin's dependencies takes time
constexpr int kRequestsFd = 3, kResponsesFd = 4;  // file descriptors known to the script

void close_end(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

std::string interpreter_advice() {
  return "`plugin_python` names the interpreter whose packages the plugin needs: `plugin_python` .venv/bin/python";
}

}  // namespace

PluginWorker::PluginWorker(PluginConfig config, std::vector<std::string> names, Json also)
    : config_(std::move(config)), names_(std::move(names)), also_(std::move(also)) {}

PluginWorker::~PluginWorker() { stop(); }

void PluginWorker::stop() {
  close_end(requests_), close_end(responses_);
  buffered_.clear();
  if (process_ < 0) return;
  ::kill(-process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = -1;
}

std::string PluginWorker::exit_reason() {
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 100 && (ended = ::waitpid(process_, &status, WNOHANG)) == 0; ++i) ::usleep(10'000);
  if (ended != process_) return "it closed its pipe";
  ::kill(-process_, SIGKILL);  // processes that the plugin started
  process_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("it was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("it ended with exit code {}", WEXITSTATUS(status));
}

void PluginWorker::start() {
  std::signal(SIGPIPE, SIG_IGN);  // a dying worker is a result, not a fatal error
  Pipe to, from;
  const auto script = std::string(kPluginClasses) + kPluginTurns + kPluginScript;
  std::vector<std::string> words{config_.python, "-u", "-c", script};
  if (config_.memory_limit > 0)
    words = {"/bin/sh", "-c",           fmt::format("ulimit -v {} && exec \"$@\"", config_.memory_limit / 1024),
             "plugin",  config_.python, "-u",
             "-c",      script};
  // Its own group, which ends with it.
  const auto started = start_program({.words = words,
                                      .descriptors = {{to.read_end(), kRequestsFd}, {from.write_end(), kResponsesFd}, {2, 1}},
                                      .null_descriptors = {0},
                                      .own_group = true});
  if (!started)
    throw UserError(ExitCode::usage, fmt::format("{} cannot be started: {}", config_.python, started.error()),
                    interpreter_advice());
  process_ = *started;
  requests_ = to.take_write(), responses_ = from.take_read();
  to.close_read(), from.close_write();  // the worker's own: its death closes the pipes
  ::fcntl(requests_, F_SETFL, O_NONBLOCK);
  ++starts_;
  Json first{{"files", config_.files}, {"names", names_}, {"arguments", config_.arguments}};
  first.update(also_);
  auto ready = exchange(first, std::max(config_.timeout, kStartSeconds), {});
  auto problem = !ready ? ready.error() : ready->contains("error") ? (*ready)["error"].get<std::string>() : "";
  if (!problem.empty()) {
    stop();
    const bool is_plugins_fault =
        ready && problem.find("ImportError") == problem.npos && problem.find("ModuleNotFoundError") == problem.npos;
    throw UserError(ExitCode::usage, fmt::format("the plugin {} cannot be used: {}", fmt::join(config_.files, ", "), problem),
                    is_plugins_fault
                        ? "correct the file; it registers a reward by orms[\"name\"] = Class, a scheduler by multi_turns, an "
                          "environment by envs"
                        : interpreter_advice());
  }
  for (const auto& [name, title] : (*ready)["ready"].items()) titles_[name] = title.get<std::string>();
  greeting_ = std::move(*ready);
}

const Json& PluginWorker::greeting() {
  if (process_ < 0) start();
  return greeting_;
}

const std::map<std::string, std::string>& PluginWorker::titles() {
  if (process_ < 0) start();
  return titles_;
}

Result<Json> PluginWorker::call(const std::string& name, Json request, const std::function<bool()>& is_cancelled) {
  if (process_ < 0) start();
  request["name"] = name;
  auto response = exchange(request, config_.timeout, is_cancelled);
  if (!response) {
    stop();
    return Error{response.error()};
  }
  if (response->contains("error")) return Error{(*response)["error"].get<std::string>()};
  return (*response)["rewards"];
}

std::vector<Result<Json>> PluginWorker::each(const std::string& action, const std::vector<Json>& rows,
                                             const std::function<bool()>& is_cancelled) {
  std::vector<Result<Json>> results;
  while (results.size() < rows.size()) {
    if (is_cancelled && is_cancelled()) {
      results.resize(rows.size(), Error{"it was cancelled"});
      break;
    }
    if (process_ < 0) start();
    const auto rest = Json(std::vector<Json>(rows.begin() + static_cast<ptrdiff_t>(results.size()), rows.end()));
    auto sent = send({{"action", action}, {"rows", rest}}, config_.timeout, is_cancelled);
    while (sent && results.size() < rows.size()) {
      auto response = receive(config_.timeout, is_cancelled);
      if (!response) {
        sent = Error{response.error()};
      } else if (response->contains("error")) {
        results.push_back(Error{(*response)["error"].get<std::string>()});
      } else {
        results.push_back((*response)["result"]);
      }
    }
    if (sent) continue;
    stop();
    results.push_back(Error{sent.error()});  // the current row
  }
  return results;
}

Result<Json> PluginWorker::exchange(const Json& request, double seconds, const std::function<bool()>& is_cancelled) {
  auto sent = send(request, seconds, is_cancelled);
  if (!sent) return Error{sent.error()};
  return receive(seconds, is_cancelled);
}

Result<bool> PluginWorker::send(const Json& request, double seconds, const std::function<bool()>& is_cancelled) {
  auto deadline = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  auto text = request.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < text.size();) {
    pollfd ready{requests_, POLLOUT, 0};
    ::poll(&ready, 1, 100);
    if (is_cancelled && is_cancelled()) return Error{"it was cancelled"};
    if (Clock::now() > deadline) return error("it took nothing for {:g} seconds", seconds);
    auto count = ::write(requests_, text.data() + sent, text.size() - sent);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return Error{exit_reason()};
    if (count > 0) sent += static_cast<size_t>(count);
  }
  return true;
}

Result<Json> PluginWorker::receive(double seconds, const std::function<bool()>& is_cancelled) {
  auto deadline = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  for (;;) {
    auto line = read_line(deadline, seconds, is_cancelled);
    if (!line) return Error{line.error()};
    auto response = parse_json(*line);
    if (!response || !response->is_object()) return error("its response is not JSON: {}", line->substr(0, 80));
    if (!response->contains("builtin")) return response;
    if (auto sent = send(builtin_rewards(*response), seconds, is_cancelled); !sent) return Error{sent.error()};
  }
}

Result<std::string> PluginWorker::read_line(Clock::time_point deadline, double seconds,
                                            const std::function<bool()>& is_cancelled) {
  for (;;) {
    if (auto end = buffered_.find('\n'); end != buffered_.npos) {
      auto line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return line;
    }
    if (buffered_.size() > kLongestResponse) return error("its response is longer than {} bytes", kLongestResponse);
    if (is_cancelled && is_cancelled()) return Error{"it was cancelled"};
    if (Clock::now() > deadline) return error("it took longer than {:g} seconds", seconds);
    pollfd ready{responses_, POLLIN, 0};
    if (::poll(&ready, 1, 100) <= 0) continue;
    std::array<char, 65536> part{};
    auto count = ::read(responses_, part.data(), part.size());
    if (count > 0) buffered_.append(part.data(), static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return Error{exit_reason()};
  }
}

}  // namespace hone::train::rl
