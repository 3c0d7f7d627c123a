// Random access to the records of a file through a sparse index: one entry per 8 KiB of file, whatever the number of records.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "hone/base/file.h"
#include "hone/data/readers/scanners.h"

namespace hone::data {

// A file read by offset. Unlike a memory map, it uses no resident memory, and a truncated file is an error, not a signal.
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

inline constexpr int64_t kIndexStride = 8 << 10;
inline constexpr int64_t kReadAhead = 1 << 20;
// Number of bytes that must be readable after a record: simdjson reads whole vectors.
inline constexpr int64_t kPadding = 64;

struct IndexEntry {
  int64_t row;
  ScanPoint start;
};

struct RecordIndex {
  std::vector<IndexEntry> entries;
  int64_t rows = 0;
  int64_t last_line = 0;  // that a record begins on; 0: not known

  // Records of an array on one line are identified by their index.
  bool on_one_line() const { return rows > 1 && last_line == entries.front().start.line; }
  void add(const Record& record) {
    last_line = record.line;
    if (entries.empty() || record.begin - entries.back().start.offset >= kIndexStride)
      entries.push_back({rows, {record.begin, record.line}});
    ++rows;
  }
};

// A record's bytes, valid until the same thread reads another.
struct RecordText {
  std::string_view text;
  int64_t line = 0;
  enum class Status { ok, too_long, unreadable } status = Status::ok;
};

template <class Scanner>
class RecordFile {
 public:
  // Scans the file from `start` on; lines by several threads, other layouts by one, since they depend on what came before.
  RecordFile(std::shared_ptr<const PlainFile> file, Scanner first, ScanPoint start, int64_t max_bytes);

  int64_t rows() const { return index_.rows; }
  const PlainFile& file() const { return *file_; }
  RecordText at(int64_t row) const;

 private:
  // The records between two index entries, cached per thread so that sequential access reads the file once.
  struct Span {
    uint64_t owner = 0;
    size_t entry = 0;
    std::string bytes;
    int64_t offset = 0;
    std::vector<Record> records;
    bool readable = true;
  };
  static uint64_t next_id();
  const Span& load(size_t entry) const;

  std::shared_ptr<const PlainFile> file_;
  Scanner first_;
  int64_t max_bytes_;
  RecordIndex index_;
  uint64_t id_;
};

extern template class RecordFile<LineScanner>;
extern template class RecordFile<CsvScanner>;
extern template class RecordFile<JsonScanner>;

}  // namespace hone::data
