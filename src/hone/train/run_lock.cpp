#include "hone/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "hone/base/json.h"
#include "hone/base/log.h"

namespace hone::train {
namespace {

constexpr const char* kLockFile = ".hone-run.lock";

std::string this_host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

std::string time_of_day() {
  auto now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%F %T", &parts);
  return text;
}

// "process 4711 on node-3 since 2026-11-16 02:00:00", from the holder's note.
std::string holder(int fd) {
  char content[512] = {};
  auto size = ::pread(fd, content, sizeof content - 1, 0);
  auto json = parse_json(std::string_view(content, size > 0 ? static_cast<size_t>(size) : 0));
  if (!json || !json->is_object()) return "another run";
  const auto word = [&](const char* key) {
    const auto value = json->value(key, Json());
    return value.is_string() ? value.get<std::string>() : "?";
  };
  return fmt::format("process {} on {} since {}", json->value("pid", Json()).dump(), word("host"), word("since"));
}

bool still_there(int fd, const fs::path& path) {
  struct stat held {
  }, named{};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

}  // namespace

RunLock::RunLock(const fs::path& folder, const char* setting) : path_(folder / kLockFile) {
  for (;;) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd_ < 0)
      throw UserError(ExitCode::usage, fmt::format("{}: cannot be opened: {}", path_.string(), std::strerror(errno)),
                      fmt::format("name another `{}`", setting));
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      if (still_there(fd_, path_)) break;  // else a run that just ended removed it
      ::close(fd_);
      continue;
    }
    const int cause = errno;
    if (cause == EWOULDBLOCK) {
      auto who = holder(fd_);
      ::close(std::exchange(fd_, -1));
      throw UserError(ExitCode::usage, fmt::format("{} is being written to by {}", folder.string(), who),
                      fmt::format("wait for it or stop it, or name another `{}`", setting));
    }
    log::warning("{}: this file system has no locks ({}); make sure that no other run writes here", path_.string(),
                 std::strerror(cause));
    return;
  }
  auto content = Json{{"pid", ::getpid()}, {"host", this_host()}, {"since", time_of_day()}}.dump();
  // A full disk is no reason to fail: the lock itself needs no space.
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, content.data(), content.size(), 0) < 0)
    log::debug("{}: {}", path_.string(), std::strerror(errno));
}

RunLock::~RunLock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  ::close(fd_);
}

}  // namespace hone::train
