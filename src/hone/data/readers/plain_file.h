// A file read by offset. Unlike a memory map, it uses no resident memory, and a truncated file is an error, not a signal.
#pragma once
#include <string>

#include "hone/base/file.h"

namespace hone::data {

class PlainFile {
 public:
  explicit PlainFile(const fs::path& path);  // throws UserError(bad_data)
  ~PlainFile();
  PlainFile(const PlainFile&) = delete;

  const fs::path& path() const { return path_; }
  int64_t size() const { return size_; }
  // Up to `count` bytes from `offset` on into `buffer`; fewer only at the end of the file, -1 on an input error. Thread-safe.
  int64_t read(int64_t offset, char* buffer, int64_t count) const;

 private:
  fs::path path_;
  int fd_;
  int64_t size_;
};

}  // namespace hone::data
