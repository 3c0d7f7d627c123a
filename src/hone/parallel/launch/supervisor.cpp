#include "hone/parallel/launch/supervisor.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/parallel/collectives/heartbeat_monitor.h"
#include "hone/parallel/launch/rank_files.h"
#include "hone/parallel/launch/rank_process.h"
#include "hone/parallel/launch/rendezvous.h"
#include "hone/parallel/launch/rendezvous_round.h"

namespace hone::parallel {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t g_signal = 0;

// While ranks run, signals to the supervisor are forwarded to all of them.
class SignalRelay {
 public:
  SignalRelay() {
    struct sigaction action {};
    action.sa_handler = [](int number) { g_signal = number; };
    for (size_t i = 0; i < std::size(kRelayed); ++i) ::sigaction(kRelayed[i], &action, &before_[i]);
  }
  ~SignalRelay() {
    for (size_t i = 0; i < std::size(kRelayed); ++i) ::sigaction(kRelayed[i], &before_[i], nullptr);
  }
  static int take() {
    int number = g_signal;
    g_signal = 0;
    return number;
  }

 private:
  static constexpr int kRelayed[] = {SIGINT, SIGTERM, SIGUSR1};
  struct sigaction before_[std::size(kRelayed)]{};
};

// Folder for the error files of a supervisor's ranks; removed at the end.
class RankFileFolder {
 public:
  RankFileFolder() {
    std::string pattern = (fs::temp_directory_path() / "hone-notes-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      throw UserError(ExitCode::failure, fmt::format("{}: {}", pattern, std::strerror(errno)),
                      "set TMPDIR to a folder that can be written");
    path_ = pattern;
  }
  ~RankFileFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string attempt(int number) const {
    auto folder = path_ / std::to_string(number);
    fs::create_directories(folder);
    return folder.string();
  }
  std::string run_of(int number) const {
    auto note = path_ / std::to_string(number) / "run";
    return fs::exists(note) ? read_file(note) : "";
  }

 private:
  fs::path path_;
};

int free_port() {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bool bound = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
               ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0) ::close(fd);
  if (!bound)
    throw UserError(ExitCode::failure, fmt::format("no free port on this machine: {}", std::strerror(errno)), "set MASTER_PORT");
  return ntohs(address.sin_port);
}

using Ranks = std::vector<RankProcess>;

void relay_output(Ranks& ranks, int wait_ms) {
  std::vector<pollfd> waiting;
  std::vector<RankProcess*> owners;
  for (auto& rank : ranks)
    if (rank.output() >= 0) waiting.push_back({rank.output(), POLLIN, 0}), owners.push_back(&rank);
  if (::poll(waiting.data(), waiting.size(), wait_ms) <= 0) return;
  for (size_t i = 0; i < waiting.size(); ++i)
    if (waiting[i].revents) owners[i]->relay();
}

void signal_all(const Ranks& ranks, int number) {
  for (const auto& rank : ranks) rank.signal(number);
}

bool lost_a_peer(const RankProcess& rank) { return rank.exit_code() == static_cast<int>(ExitCode::lost_peer); }

// Monitors the ranks of one attempt. A rank that only lost a peer is not the cause: that peer is, and its failure appears
// shortly.
class Attempt {
 public:
  Attempt(const SupervisorConfig& config, Ranks ranks, int port) : config_(config), ranks_(std::move(ranks)), port_(port) {}

  int run() {
    while (!all_ended()) {
      relay_output(ranks_, 100);
      if (int number = SignalRelay::take()) {
        signalled_ = true;
        signal_all(ranks_, number);
      }
      for (auto& rank : ranks_)
        if (rank.reap() && rank.exit_code() != 0) note(rank);
      if (suspect_ && !blamed_ && Clock::now() > decide_at_) blame();
      if (urge_at_ &&
          Clock::now() > *urge_at_) {  // at the second signal a rank exits at once: no others are left to save a checkpoint with
        signal_all(ranks_, SIGTERM);
        urge_at_.reset();
      }
      if (kill_at_ && Clock::now() > *kill_at_) signal_all(ranks_, SIGKILL);
    }
    if (suspect_ && !blamed_) blame();
    while (std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.output() >= 0; }))
      relay_output(ranks_, 100);
    return suspect_ ? suspect_->exit_code() : 0;
  }
  bool was_signalled() const { return signalled_; }
  // Which rank failed, how, and its error message.
  std::string why(const char* adverb = "") const {
    if (!suspect_) return "";
    auto reason = suspect_->why();
    return fmt::format("rank {} {}{}{}{}{}", suspect_->number(), suspect_->how_it_ended(), *adverb ? " " : "", adverb,
                       reason.empty() ? "" : ": ", reason);
  }

 private:
  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.ended(); });
  }

  void note(RankProcess& rank) {
    if (blamed_ || (suspect_ && !lost_a_peer(*suspect_))) return;
    if (!suspect_) decide_at_ = Clock::now() + (lost_a_peer(rank) ? std::chrono::seconds(2) : std::chrono::seconds(0));
    if (!suspect_ || !lost_a_peer(rank)) suspect_ = &rank;
    if (!lost_a_peer(rank)) decide_at_ = Clock::now();
  }

  void blame() {
    blamed_ = true;
    auto grace = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(config_.grace_seconds));
    kill_at_ = Clock::now() + grace;
    const bool interrupted = signalled_ && suspect_->exit_code() == static_cast<int>(ExitCode::interrupted);
    if (interrupted || suspect_->exit_code() == static_cast<int>(ExitCode::preempted))
      return;  // it saved after a stop signal; the others are about to
    log::error("{}; ending the other ranks", why("first"));
    if (config_.launch.nodes > 1)
      report_lost_rank(config_.launch.master_address, port_,
                       fmt::format("rank {} {}", suspect_->number(), suspect_->how_it_ended()));
    signal_all(ranks_, SIGTERM);
    urge_at_ = Clock::now() + std::chrono::seconds(1);
  }

  const SupervisorConfig& config_;
  Ranks ranks_;
  int port_;
  RankProcess* suspect_ = nullptr;
  bool blamed_ = false, signalled_ = false;
  Clock::time_point decide_at_;
  std::optional<Clock::time_point> urge_at_, kill_at_;
};

// Failures that a restart cannot fix: wrong usage, invalid data, non-finite numbers, a finished or interrupted run.
bool worth_restarting(int code) {
  static constexpr ExitCode kFinal[] = {
      ExitCode::ok,         ExitCode::usage,        ExitCode::bad_data,  ExitCode::bad_checkpoint,
      ExitCode::non_finite, ExitCode::out_of_space, ExitCode::preempted, ExitCode::interrupted};
  return std::none_of(std::begin(kFinal), std::end(kFinal), [&](ExitCode final) { return code == static_cast<int>(final); });
}

}  // namespace

LaunchResult supervise(const SupervisorConfig& config) {
  if (config.launch.nodes > 1) require_resolvable(config.launch.master_address);
  SignalRelay relay;
  RankFileFolder notes;
  std::string run;
  for (int attempt = 0;; ++attempt) {
    auto agreed = agree_on_nodes(config.launch, attempt);
    int port = agreed.master_port ? agreed.master_port : free_port();
    Ranks ranks;
    auto folder = notes.attempt(attempt);
    for (int i = 0; i < agreed.processes; ++i)
      ranks.emplace_back(RankProcess::Start{agreed, config.command, i, port, folder, run});
    SupervisorConfig current{agreed, config.command, config.max_restarts, config.grace_seconds};
    Attempt watched(current, std::move(ranks), port);
    int code = watched.run();
    if (auto noted = notes.run_of(attempt); !noted.empty()) run = noted;
    if (!worth_restarting(code) || attempt >= config.max_restarts || watched.was_signalled()) return {code, watched.why(), run};
    auto pause = std::chrono::seconds(1 << std::min(attempt, 5));
    log::warning("restart {} of {} in {} s, from the last checkpoint", attempt + 1, config.max_restarts, pause.count());
    std::this_thread::sleep_for(pause);
  }
}

bool is_supervised() { return std::getenv(kSupervisedMark) != nullptr; }

}  // namespace hone::parallel
