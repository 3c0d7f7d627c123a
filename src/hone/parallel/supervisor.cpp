#include "hone/parallel/supervisor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include "hone/base/error.h"
#include "hone/base/log.h"

namespace hone::parallel {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kMark = "HONE_SUPERVISED";

volatile std::sig_atomic_t g_signal = 0;

// While ranks run, a signal to the supervisor is a signal to all of them.
class SignalRelay {
 public:
  SignalRelay() {
    struct sigaction action {};
    action.sa_handler = [](int number) { g_signal = number; };
    ::sigaction(SIGINT, &action, &old_interrupt_);
    ::sigaction(SIGTERM, &action, &old_terminate_);
  }
  ~SignalRelay() {
    ::sigaction(SIGINT, &old_interrupt_, nullptr);
    ::sigaction(SIGTERM, &old_terminate_, nullptr);
  }
  static int take() {
    int number = g_signal;
    g_signal = 0;
    return number;
  }

 private:
  struct sigaction old_interrupt_ {}, old_terminate_ {};
};

struct Rank {
  int number = 0;
  pid_t pid = -1;
  int output = -1;  // read end of its stdout and stderr; -1 for the rank that owns the terminal
  std::string line;
  std::optional<int> status;
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
  if (!bound) throw UserError(ExitCode::failure, fmt::format("no free port on this machine: {}", std::strerror(errno)), "set MASTER_PORT");
  return ntohs(address.sin_port);
}

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

void describe_rank(const Launch& launch, int local_rank, int port) {
  set("RANK", std::to_string(launch.node_rank * launch.processes + local_rank));
  set("WORLD_SIZE", std::to_string(launch.nodes * launch.processes));
  set("LOCAL_RANK", std::to_string(local_rank));
  set("LOCAL_WORLD_SIZE", std::to_string(launch.processes));
  set("MASTER_ADDR", launch.master_address);
  set("MASTER_PORT", std::to_string(port));
  set(kMark, "1");
  // Ranks share the node's cores; each with all of them would fight.
  unsigned share = std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(launch.processes));
  ::setenv("OMP_NUM_THREADS", std::to_string(share).c_str(), 0);
}

Rank start_rank(const SupervisorConfig& config, int local_rank, int port) {
  int ends[2] = {-1, -1};
  bool owns_terminal = local_rank == 0;
  if (!owns_terminal && ::pipe2(ends, O_CLOEXEC) != 0) throw UserError(ExitCode::failure, std::string("pipe: ") + std::strerror(errno));
  pid_t parent = ::getpid();
  pid_t pid = ::fork();
  if (pid < 0) throw UserError(ExitCode::failure, std::string("cannot start a rank: ") + std::strerror(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed supervisor leaves no orphans
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);                     // Ctrl-C reaches ranks through the relay alone, once
    if (!owns_terminal) {
      ::dup2(ends[1], 1);
      ::dup2(ends[1], 2);
    }
    describe_rank(config.launch, local_rank, port);
    std::vector<char*> argv;
    for (const auto& word : config.command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  if (ends[1] >= 0) ::close(ends[1]);
  return {config.launch.node_rank * config.launch.processes + local_rank, pid, ends[0], {}, {}};
}

void print_lines(Rank& rank, std::string_view text) {
  rank.line += text;
  size_t begin = 0;
  for (size_t end; (end = rank.line.find('\n', begin)) != std::string::npos; begin = end + 1)
    fmt::print(stderr, "[rank {}] {}\n", rank.number, std::string_view(rank.line).substr(begin, end - begin));
  rank.line.erase(0, begin);
}

void relay_output(std::vector<Rank>& ranks, int wait_ms) {
  std::vector<pollfd> waiting;
  std::vector<Rank*> owners;
  for (auto& rank : ranks)
    if (rank.output >= 0) waiting.push_back({rank.output, POLLIN, 0}), owners.push_back(&rank);
  if (::poll(waiting.data(), waiting.size(), wait_ms) <= 0) return;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (!waiting[i].revents) continue;
    char buffer[4096];
    ssize_t count = ::read(waiting[i].fd, buffer, sizeof buffer);
    if (count > 0) {
      print_lines(*owners[i], {buffer, static_cast<size_t>(count)});
    } else if (count == 0) {
      ::close(std::exchange(owners[i]->output, -1));
    }
  }
}

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

void signal_all(std::vector<Rank>& ranks, int number) {
  for (auto& rank : ranks)
    if (!rank.status) ::kill(rank.pid, number);
}

// Notes ranks that have ended; returns the first of them that failed.
Rank* reap(std::vector<Rank>& ranks) {
  Rank* failed = nullptr;
  for (auto& rank : ranks) {
    int status;
    if (rank.status || ::waitpid(rank.pid, &status, WNOHANG) != rank.pid) continue;
    rank.status = status;
    if (exit_code_of(status) != 0 && !failed) failed = &rank;
  }
  return failed;
}

bool all_ended(const std::vector<Rank>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.status.has_value(); });
}

int run_once(const SupervisorConfig& config) {
  int port = config.launch.master_port ? config.launch.master_port : free_port();
  std::vector<Rank> ranks;
  for (int i = 0; i < config.launch.processes; ++i) ranks.push_back(start_rank(config, i, port));
  std::optional<int> outcome;
  std::optional<Clock::time_point> deadline;
  while (!all_ended(ranks)) {
    relay_output(ranks, 100);
    if (int number = SignalRelay::take()) signal_all(ranks, number);
    if (Rank* failed = reap(ranks); failed && !outcome) {
      outcome = exit_code_of(*failed->status);
      deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(config.grace_seconds));
      // A rank that was asked to stop and saved is no failure of the others.
      if (*outcome != static_cast<int>(ExitCode::preempted)) {
        log::error("rank {} {} first; ending the other ranks", failed->number, how_it_ended(*failed->status));
        signal_all(ranks, SIGTERM);
      }
    }
    if (deadline && Clock::now() > *deadline) signal_all(ranks, SIGKILL);
  }
  while (std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.output >= 0; })) relay_output(ranks, 100);
  return outcome.value_or(0);
}

// What a new start cannot mend: wrong usage, wrong data, a finished or interrupted run.
bool worth_restarting(int code) {
  return code != 0 && code != static_cast<int>(ExitCode::usage) && code != static_cast<int>(ExitCode::bad_data) &&
         code != static_cast<int>(ExitCode::bad_checkpoint) && code != static_cast<int>(ExitCode::preempted) &&
         code != static_cast<int>(ExitCode::interrupted);
}

}  // namespace

int supervise(const SupervisorConfig& config) {
  SignalRelay relay;
  for (int attempt = 0;; ++attempt) {
    int code = run_once(config);
    if (!worth_restarting(code) || attempt >= config.max_restarts) return code;
    log::warning("restart {} of {} in {} s", attempt + 1, config.max_restarts, 1 << std::min(attempt, 5));
    std::this_thread::sleep_for(std::chrono::seconds(1 << std::min(attempt, 5)));
  }
}

bool is_supervised() { return std::getenv(kMark) != nullptr; }

}  // namespace hone::parallel
