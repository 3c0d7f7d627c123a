#include "hone/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace hone {
namespace {

[[noreturn]] void fail(const fs::path& path, const char* doing) {
  const int cause = errno;
  bool full = cause == ENOSPC || cause == EDQUOT;
  throw UserError(full ? ExitCode::out_of_space : ExitCode::bad_data,
                  fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(cause)),
                  full ? "free some space, or choose another folder" : "");
}

// Owns a descriptor; operations throw errors that contain the path.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const char* doing)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail(path_, doing);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;

  struct stat status() const {
    struct stat info;
    if (::fstat(fd_, &info) != 0) fail(path_, "stat");
    return info;
  }
  void write_all(std::string_view content) const {
    while (!content.empty()) {
      ssize_t written = ::write(fd_, content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(path_, "write");
      content.remove_prefix(static_cast<size_t>(written));
    }
  }
  void sync() const {
    if (::fsync(fd_) != 0) fail(path_, "sync");
  }
  int get() const { return fd_; }

 private:
  fs::path path_;
  int fd_;
};

}  // namespace

namespace {

// Opening a named pipe blocks until a writer opens it, perhaps forever. A shell's <(command) is an unnamed pipe.
void refuse_named_pipe(const fs::path& path) {
  struct stat info {};
  const auto folder = path.parent_path();
  if (::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode) && folder != "/dev/fd" && folder != "/proc/self/fd")
    throw UserError(ExitCode::bad_data, path.string() + ": is a named pipe; expected a file");
}

}  // namespace

std::string read_file(const fs::path& path) {
  refuse_named_pipe(path);
  Descriptor file(path, O_RDONLY, "open");
  auto info = file.status();
  if (S_ISDIR(info.st_mode)) throw UserError(ExitCode::bad_data, path.string() + ": is a folder; expected a file");
  std::string content;
  content.reserve(static_cast<size_t>(info.st_size) + 1);
  char buffer[1 << 16];
  while (true) {
    ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "read");
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
  }
}

MappedFile::MappedFile(const fs::path& path) {
  Descriptor file(path, O_RDONLY | O_NONBLOCK, "open");  // do not block on a pipe
  auto info = file.status();
  if (!S_ISREG(info.st_mode)) throw UserError(ExitCode::bad_data, path.string() + ": is not a regular file");
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail(path, "map");
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  fs::path staging = path;
  staging += fmt::format(".tmp.{}", ::getpid());
  {
    Descriptor file(staging, O_WRONLY | O_CREAT | O_TRUNC, "create");
    try {
      file.write_all(content);
      file.sync();
    } catch (...) {
      ::unlink(staging.c_str());
      throw;
    }
  }
  if (::rename(staging.c_str(), path.c_str()) != 0) fail(path, "rename into place");
  sync_directory(path.parent_path().empty() ? "." : path.parent_path());
}

void append_line(const fs::path& path, std::string_view line) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND, "append");
  file.write_all(std::string(line) + '\n');
}

void sync_directory(const fs::path& directory) { Descriptor(directory, O_RDONLY | O_DIRECTORY, "open").sync(); }

bool is_inside(const fs::path& root, const fs::path& path) {
  auto resolved_root = fs::weakly_canonical(root), resolved = fs::weakly_canonical(path);
  auto [end, rest] = std::mismatch(resolved_root.begin(), resolved_root.end(), resolved.begin(), resolved.end());
  return end == resolved_root.end();
}

}  // namespace hone
