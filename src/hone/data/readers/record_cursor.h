// Reads the records of a file in sequence without an index; the position is a byte offset, exact after every record.
#pragma once
#include <optional>

#include "hone/data/readers/record_file.h"

namespace hone::data {

template <class Scanner>
class RecordCursor {
 public:
  RecordCursor(std::shared_ptr<const PlainFile> file, Scanner first, ScanPoint start, int64_t max_bytes)
      : file_(std::move(file)), first_(first), position_(start), max_bytes_(max_bytes) {}

  // nullopt at the end of the file. The text is valid until the next call.
  std::optional<RecordText> next();
  ScanPoint position() const { return position_; }
  void seek(ScanPoint position);
  const PlainFile& file() const { return *file_; }

 private:
  void fill();
  // Puts the single record that is longer than any window into `records_`, without keeping its bytes.
  void skip_long_record(Scanner& scanner, int64_t scanned);

  std::shared_ptr<const PlainFile> file_;
  Scanner first_;
  ScanPoint position_, after_window_;
  int64_t max_bytes_, base_ = 0;
  std::string bytes_;
  std::vector<Record> records_;
  size_t given_ = 0;
};

extern template class RecordCursor<LineScanner>;
extern template class RecordCursor<CsvScanner>;
extern template class RecordCursor<JsonScanner>;

}  // namespace hone::data
