#include "hone/parallel/launch/rank_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace hone::parallel {
namespace {

void note(const char* variable, const std::string& text, int flags) {
  const char* path = std::getenv(variable);
  if (!path) return;
  int fd = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (fd < 0) return;
  [[maybe_unused]] auto written = ::write(fd, text.data(), text.size());
  ::close(fd);
}

}  // namespace

void write_error_file(const std::string& why) { note(kFailureNote, why, O_EXCL); }
void write_run_dir(const std::string& folder) { note(kRunNote, folder, O_TRUNC); }

std::optional<std::string> run_dir_to_resume() {
  const char* folder = std::getenv(kContinueRun);
  return folder && *folder ? std::optional<std::string>(folder) : std::nullopt;
}

}  // namespace hone::parallel
