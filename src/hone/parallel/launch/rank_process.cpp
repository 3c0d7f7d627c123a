#include "hone/parallel/launch/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "hone/base/error.h"
#include "hone/parallel/launch/rank_files.h"

namespace hone::parallel {
namespace {

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

void describe_rank(const RankProcess::Start& start, const std::string& failure_note) {
  const auto& launch = start.launch;
  set("RANK", std::to_string(launch.node_rank * launch.processes + start.local_rank));
  set("WORLD_SIZE", std::to_string(launch.nodes * launch.processes));
  set("LOCAL_RANK", std::to_string(start.local_rank));
  set("LOCAL_WORLD_SIZE", std::to_string(launch.processes));
  set("MASTER_ADDR", launch.master_address);
  set("MASTER_PORT", std::to_string(start.port));
  set(kSupervisedMark, "1");
  set(kFailureNote, failure_note);
  set(kRunNote, start.notes + "/run");
  if (!start.continue_run.empty()) set(kContinueRun, start.continue_run);
  // Ranks share the node's cores; using all of them in each rank would oversubscribe.
  ::setenv("OMP_NUM_THREADS", std::to_string(cores_per_rank(launch.processes)).c_str(), 0);
}

}  // namespace

RankProcess::RankProcess(const Start& start)
    : number_(start.launch.node_rank * start.launch.processes + start.local_rank),
      failure_note_(fmt::format("{}/failure-{}", start.notes, number_)) {
  int ends[2] = {-1, -1};
  bool owns_terminal = start.local_rank == 0;
  if (!owns_terminal && ::pipe2(ends, O_CLOEXEC) != 0)
    throw UserError(ExitCode::failure, std::string("pipe: ") + std::strerror(errno));
  std::vector<char*> argv;
  for (const auto& word : start.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw UserError(ExitCode::failure, std::string("cannot start a rank: ") + std::strerror(errno));
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ranks end with a killed supervisor
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);  // Ctrl-C reaches ranks only through the supervisor, once
    if (!owns_terminal) {
      ::dup2(ends[1], 1);
      ::dup2(ends[1], 2);
    }
    describe_rank(start, failure_note_);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  if (ends[1] >= 0) ::close(ends[1]);
  output_ = ends[0];
}

bool RankProcess::reap() {
  int status;
  if (status_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  status_ = status;
  return true;
}

int RankProcess::exit_code() const { return WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_); }

std::string RankProcess::how_it_ended() const {
  if (WIFSIGNALED(*status_))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(*status_), strsignal(WTERMSIG(*status_)));
  return fmt::format("exited with code {}", WEXITSTATUS(*status_));
}

std::string RankProcess::why() const {
  std::ifstream file(failure_note_);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void RankProcess::signal(int number) const {
  if (!status_) ::kill(pid_, number);
}

void RankProcess::relay() {
  char buffer[4096];
  ssize_t count = ::read(output_, buffer, sizeof buffer);
  if (count == 0) {
    ::close(std::exchange(output_, -1));
    if (!line_.empty()) line_ += '\n';
  } else if (count > 0) {
    line_.append(buffer, static_cast<size_t>(count));
  }
  size_t begin = 0;
  for (size_t end; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1)
    fmt::print(stderr, "[rank {}] {}\n", number_, std::string_view(line_).substr(begin, end - begin));
  line_.erase(0, begin);
}

}  // namespace hone::parallel
