#include "hone/train/rl/rewards/sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <random>
#include <vector>

#include "hone/base/child_process.h"
#include "hone/base/error.h"
#include "hone/base/strings/trimmed.h"
#include "hone/train/rl/rewards/sandbox_filter.h"

namespace hone::train::rl {
namespace {

using SandboxClock = std::chrono::steady_clock;
constexpr int kProgramFd = 10, kFilterFd = 11;  // file descriptors passed to bubblewrap
constexpr size_t kLongestComplaint = 4096;      // bytes of stderr to keep

std::vector<std::string> sandbox_words(const SandboxConfig& config) {
  const auto seconds = static_cast<int64_t>(std::ceil(config.timeout)) + 1;
  // Shell limits inherited by the interpreter: CPU time, memory, file size (blocks of 512 bytes), open files.
  const auto limits = fmt::format(
      "ulimit -t {} && ulimit -v {} && ulimit -f 16384 && ulimit -n 64 && ulimit -c 0 && exec /usr/bin/python3 -I -B "
      "/tmp/program.py",
      seconds, config.memory_limit / 1024);
  return {"/usr/bin/bwrap",
          "--unshare-all",
          "--die-with-parent",
          "--new-session",
          "--cap-drop",
          "ALL",
          "--uid",
          "65534",
          "--gid",
          "65534",
          "--hostname",
          "sandbox",
          "--clearenv",
          "--setenv",
          "PATH",
          "/usr/bin",
          "--ro-bind",
          "/usr",
          "/usr",
          "--symlink",
          "usr/lib",
          "/lib",
          "--symlink",
          "usr/lib64",
          "/lib64",
          "--symlink",
          "usr/bin",
          "/bin",
          "--dir",
          "/dev",
          "--dev-bind",
          "/dev/null",
          "/dev/null",
          "--dev-bind",
          "/dev/urandom",
          "/dev/urandom",
          "--size",
          "16777216",
          "--tmpfs",
          "/tmp",
          "--file",
          std::to_string(kProgramFd),
          "/tmp/program.py",
          "--remount-ro",
          "/",
          "--chdir",
          "/tmp",
          "--seccomp",
          std::to_string(kFilterFd),
          "--",
          "/bin/sh",
          "-c",
          limits};
}

// One running program.
class SandboxRun {
 public:
  SandboxRun(const std::string& program, const std::string& input, const SandboxConfig& config)
      : config_(config),
        filter_(sandbox_filter()),
        sent_{Sent{&to_program_, &program}, Sent{&to_filter_, &filter_}, Sent{&to_input_, &input}} {
    start();
  }
  ~SandboxRun() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  ProgramResult wait(const std::function<bool()>& is_cancelled) {
    using End = ProgramResult::End;
    const auto deadline = SandboxClock::now() + std::chrono::milliseconds(static_cast<int64_t>(config_.timeout * 1000));
    while (output_.read_end() >= 0 || errors_.read_end() >= 0) {
      if (SandboxClock::now() > deadline)
        return ended(End::timed_out, fmt::format("took longer than {:g} seconds", config_.timeout));
      if (is_cancelled && is_cancelled()) return ended(End::timed_out, "was given up");
      exchange();
      if (static_cast<int64_t>(written_.size()) > config_.output_limit)
        return ended(End::too_much_output, fmt::format("wrote more than {} bytes", config_.output_limit));
    }
    return exit_result(deadline);
  }

 private:
  struct Sent {
    Pipe* pipe;
    const std::string* text;
    size_t at = 0;
  };

  void start() {
    std::signal(SIGPIPE, SIG_IGN);  // a program that reads nothing is a result, not a fatal error
    const auto started = start_program({.words = sandbox_words(config_),
                                        .inherits_environment = false,
                                        .descriptors = {{to_input_.read_end(), 0},
                                                        {output_.write_end(), 1},
                                                        {errors_.write_end(), 2},
                                                        {to_program_.read_end(), kProgramFd},
                                                        {to_filter_.read_end(), kFilterFd}}});
    if (!started)
      throw UserError(ExitCode::failure, fmt::format("/usr/bin/bwrap cannot be started: {}", started.error()),
                      "install the package bubblewrap");
    process_ = *started;
    for (auto* pipe : {&to_input_, &to_program_, &to_filter_}) pipe->close_read();
    for (auto* pipe : {&output_, &errors_}) pipe->close_write();
    for (auto& one : sent_) ::fcntl(one.pipe->write_end(), F_SETFL, O_NONBLOCK);
  }

  // Sends and reads what is possible within a tenth of a second.
  void exchange() {
    std::array<pollfd, 5> ready{};
    for (size_t i = 0; i < sent_.size(); ++i) ready[i] = {sent_[i].pipe->write_end(), POLLOUT, 0};
    ready[3] = {output_.read_end(), POLLIN, 0}, ready[4] = {errors_.read_end(), POLLIN, 0};  // a closed one (-1) is ignored
    ::poll(ready.data(), ready.size(), 100);
    for (size_t i = 0; i < sent_.size(); ++i)
      if (ready[i].revents != 0) send(sent_[i]);
    if (ready[3].revents != 0) read(output_, written_, static_cast<size_t>(config_.output_limit) + 1);
    if (ready[4].revents != 0) read(errors_, complaint_, kLongestComplaint);
  }

  static void send(Sent& sent) {
    const auto count = ::write(sent.pipe->write_end(), sent.text->data() + sent.at, sent.text->size() - sent.at);
    if (count > 0) sent.at += static_cast<size_t>(count);
    if (sent.at == sent.text->size() || (count < 0 && errno != EAGAIN && errno != EINTR)) sent.pipe->close_write();
  }

  // Keeps the last bytes if there are too many.
  static void read(Pipe& pipe, std::string& into, size_t longest) {
    std::array<char, 16384> part{};
    const auto count = ::read(pipe.read_end(), part.data(), part.size());
    if (count > 0) into.append(part.data(), static_cast<size_t>(count));
    if (into.size() > longest) into.erase(0, into.size() - longest);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) pipe.close_read();
  }

  ProgramResult ended(ProgramResult::End end, std::string why) { return {end, std::move(written_), std::move(why)}; }

  // It has closed its output but may still be running.
  ProgramResult exit_result(SandboxClock::time_point deadline) {
    using End = ProgramResult::End;
    int status = 0;
    while (::waitpid(process_, &status, WNOHANG) == 0) {
      if (SandboxClock::now() > deadline)
        return ended(End::timed_out, fmt::format("took longer than {:g} seconds", config_.timeout));
      ::usleep(2'000);
    }
    process_ = -1;
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (code == 0) return ended(End::finished, "");
    const auto lines = trimmed(complaint_);
    const auto last = lines.substr(lines.rfind('\n') + 1);  // npos + 1 is 0
    if (code > 128) return ended(End::died, fmt::format("was killed by signal {} ({})", code - 128, ::strsignal(code - 128)));
    return ended(End::failed, last.empty() ? fmt::format("ended with exit code {}", code) : last);
  }

  const SandboxConfig& config_;
  std::string filter_;
  Pipe to_input_, to_program_, to_filter_, output_, errors_;
  std::array<Sent, 3> sent_;
  std::string written_, complaint_;
  pid_t process_ = -1;
};

}  // namespace

ProgramResult run_in_sandbox(const std::string& program, const std::string& input, const SandboxConfig& config,
                             const std::function<bool()>& is_cancelled) {
  return SandboxRun(program, input, config).wait(is_cancelled);
}

ProgramResult run_checks_in_sandbox(const std::string& program, const std::string& checks, const SandboxConfig& config,
                                    const std::function<bool()>& is_cancelled) {
  // Written after the last check.
  std::random_device random;
  const auto mark = fmt::format("{:08x}{:08x}", random(), random());
  const auto last = fmt::format("\n__import__('sys').__stdout__.write('{}')\n", mark);
  auto result = run_in_sandbox(program + "\n" + checks + last, "", config, is_cancelled);
  if (result.end != ProgramResult::End::finished) return result;
  const auto at = result.output.rfind(mark);
  if (at == result.output.npos) return {ProgramResult::End::failed, std::move(result.output), "ended before its checks"};
  result.output.erase(at, mark.size());
  return result;
}

void require_sandbox() {
  constexpr const char* kAdvice =
      "install bubblewrap (apt install bubblewrap) where user namespaces are allowed, or serve the reward from a sandbox of your "
      "own: `reward_funcs` http://127.0.0.1:9000/score";
  try {
    const auto result = run_in_sandbox("print(6 * 7)", "", {.enabled = true});
    if (result.end == ProgramResult::End::finished && result.output == "42\n") return;
    throw UserError(ExitCode::usage, fmt::format("programs cannot be run in a sandbox here: {}", result.why), kAdvice);
  } catch (const UserError& problem) {
    if (problem.code() == ExitCode::usage) throw;
    throw UserError(ExitCode::usage, problem.what(), kAdvice);
  }
}

}  // namespace hone::train::rl
