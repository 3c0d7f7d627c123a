// Files: whole reads, read-only maps, and writes that exist completely or not at all.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "hone/base/error.h"

namespace hone {

namespace fs = std::filesystem;

// Throws UserError(bad_data) naming the path and the cause.
std::string read_file(const fs::path& path);

// A file's bytes, mapped read-only. Pages are shared with the page cache and cost no copy.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes a temporary file, syncs and renames it: readers see either the old or the new content.
void write_file_atomically(const fs::path& path, std::string_view content);

// Appends one line with a single write, so that a reader of a log never sees a partial line.
void append_line(const fs::path& path, std::string_view line);

// Makes the directory entry of a finished rename durable.
void sync_directory(const fs::path& directory);

// True if `path`, with all symlinks resolved, is inside `root`. Guards against "../" and symlinks in names that come from files.
bool is_inside(const fs::path& root, const fs::path& path);

}  // namespace hone
