#include "hone/data/readers/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hone::data {

PlainFile::PlainFile(const fs::path& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) throw UserError(ExitCode::bad_data, fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
  struct stat info;
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    throw UserError(ExitCode::bad_data, path.string() + ": is not a regular file; expected a dataset file");
  }
  size_ = info.st_size;
}

PlainFile::~PlainFile() { ::close(fd_); }

int64_t PlainFile::read(int64_t offset, char* buffer, int64_t count) const {
  int64_t done = 0;
  while (done < count) {
    ssize_t got = ::pread(fd_, buffer + done, static_cast<size_t>(count - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += got;
  }
  return done;
}

}  // namespace hone::data
