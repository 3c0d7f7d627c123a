#include "hone/base/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace hone {
namespace {

[[noreturn]] void no_pipe(int problem) {
  throw UserError(ExitCode::failure, fmt::format("there is no pipe for a program: {}", std::strerror(problem)));
}

constexpr int kFirstEnd = 20;  // moving a descriptor to its number in a program closes no end of a pipe

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string_view name_of(std::string_view variable) { return variable.substr(0, variable.find('=')); }

std::vector<std::string> environment_of(const ChildProgram& program) {
  auto all = program.variables;
  const auto is_set = [&](std::string_view name) {
    return std::ranges::any_of(program.variables, [&](const auto& each) { return name_of(each) == name; });
  };
  for (char** each = environ; program.inherits_environment && *each; ++each)
    if (!is_set(name_of(*each))) all.emplace_back(*each);
  return all;
}

// Actions of posix_spawn in the new process.
struct SpawnActions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnActions(const ChildProgram& program) {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    for (const auto& [own, number] : program.descriptors) posix_spawn_file_actions_adddup2(&files, own, number);
    for (int number : program.null_descriptors) posix_spawn_file_actions_addopen(&files, number, "/dev/null", O_RDWR, 0);
    if (program.own_group) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnActions(const SpawnActions&) = delete;
};

}  // namespace

Pipe::Pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) no_pipe(errno);
  read_ = ::fcntl(ends[0], F_DUPFD_CLOEXEC, kFirstEnd);
  write_ = ::fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstEnd);
  const int problem = errno;
  ::close(ends[0]);
  ::close(ends[1]);
  if (read_ >= 0 && write_ >= 0) return;
  close_read();
  close_write();
  no_pipe(problem);
}

Pipe::~Pipe() {
  close_read();
  close_write();
}

void Pipe::close_read() {
  if (read_ >= 0) ::close(take_read());
}

void Pipe::close_write() {
  if (write_ >= 0) ::close(take_write());
}

Result<pid_t> start_program(const ChildProgram& program) {
  auto words = program.words;
  auto environment = environment_of(program);
  SpawnActions actions(program);
  pid_t started = -1;
  const int failed = ::posix_spawnp(&started, words.front().c_str(), &actions.files, &actions.attributes,
                                    pointers_to(words).data(), pointers_to(environment).data());
  if (failed != 0) return error("{}", std::strerror(failed));
  return started;
}

int wait_for_program(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return status;
}

Result<std::string> program_output(ChildProgram program) {
  Pipe pipe;
  program.descriptors.emplace_back(pipe.write_end(), 1);
  const auto process = start_program(program);
  if (!process) return Error{process.error()};
  pipe.close_write();
  std::string text;
  std::array<char, 4096> part;
  ssize_t count;
  while ((count = ::read(pipe.read_end(), part.data(), part.size())) > 0 || (count < 0 && errno == EINTR))
    if (count > 0) text.append(part.data(), static_cast<size_t>(count));
  wait_for_program(*process);
  return text;
}

}  // namespace hone
