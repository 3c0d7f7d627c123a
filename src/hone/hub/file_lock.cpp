#include "hone/hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "hone/base/error.h"
#include "hone/base/log.h"

namespace hone::hub {

namespace fs = std::filesystem;

FileLock::FileLock(const fs::path& path, const std::function<void(bool first)>& waiting) : path_(path) {
  for (bool first = true; !take(); first = false) {
    waiting(first);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

bool FileLock::take() {
  fs::create_directories(path_.parent_path());
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0 && errno == ENOENT) return false;  // the previous holder removed the folder
  if (fd_ < 0)
    throw UserError(ExitCode::failure, fmt::format("{}: cannot create: {}", path_.string(), std::strerror(errno)),
                    "check who may write there");
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    // The previous holder removes the file: a lock on an unlinked file protects nothing.
    struct stat held, named;
    if (::fstat(fd_, &held) == 0 && ::stat(path_.c_str(), &named) == 0 && held.st_ino == named.st_ino) return true;
  } else if (errno != EWOULDBLOCK && errno != EINTR) {
    log::warn_once(fmt::format("{}: this file system has no locks ({}); do not download the same thing twice at once",
                               path_.string(), std::strerror(errno)));
    return true;
  }
  ::close(fd_);
  fd_ = -1;
  return false;
}

FileLock::~FileLock() {
  std::error_code ignored;
  fs::remove(path_, ignored);
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace hone::hub
