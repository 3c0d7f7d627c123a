// A file during a download in pieces: its location, the progress of each piece, and how to resume.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>

namespace hone::hub {

struct ByteRange {
  uint64_t begin = 0, end = 0;    // [begin, end) of the file
  std::atomic<uint64_t> done{0};  // bytes of it that are written
  bool complete() const { return begin + done == end; }
};

class PartialFile {
 public:
  // Opens `path` and its journal. Progress of an earlier run counts if size and checksum match.
  PartialFile(std::filesystem::path path, uint64_t size, std::string checksum, uint64_t piece_size);
  ~PartialFile();  // saves the journal
  PartialFile(const PartialFile&) = delete;

  std::deque<ByteRange>& ranges() { return ranges_; }
  uint64_t size() const { return size_; }
  uint64_t done() const;
  const std::filesystem::path& path() const { return path_; }

  // Pieces may be written by different threads. A full disk is a UserError(out_of_space).
  void write(ByteRange& piece, std::span<const char> bytes);
  // Discards the received data. A single piece if ranges are not supported.
  void restart(bool one_piece);

  // The ETag of the server that sent the data: a different one means a different file.
  std::string validator() const;
  void set_validator(const std::string& etag);

  // Syncs, moves the file to `target` and removes the journal.
  void finish(const std::filesystem::path& target);
  void discard();

 private:
  bool resume();
  void split_into_ranges(uint64_t piece_size);
  void save();
  std::filesystem::path journal() const;

  std::filesystem::path path_;
  uint64_t size_, range_size_;
  std::string checksum_, validator_;
  std::deque<ByteRange> ranges_;  // a deque: pieces hold atomics and do not move
  int fd_ = -1;
  bool finished_ = false;
  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point saved_;
};

}  // namespace hone::hub
