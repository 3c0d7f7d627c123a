// A lock between processes on one file. The second process waits; the lock of a dead process is released.
#pragma once
#include <filesystem>
#include <functional>

namespace hone::hub {

class FileLock {
 public:
  // Waits for the lock; `waiting` is called once if another process holds it, then repeatedly until it is free, and may throw.
  FileLock(const std::filesystem::path& path, const std::function<void(bool first)>& waiting);
  ~FileLock();  // removes the file
  FileLock(const FileLock&) = delete;

 private:
  bool take();
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace hone::hub
