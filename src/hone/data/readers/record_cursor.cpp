#include "hone/data/readers/record_cursor.h"

namespace hone::data {

template <class Scanner>
void RecordCursor<Scanner>::seek(ScanPoint position) {
  position_ = position;
  records_.clear();
  given_ = 0;
}

template <class Scanner>
void RecordCursor<Scanner>::skip_long_record(Scanner& scanner, int64_t scanned) {
  auto first = [&](const Record& record) { return records_.push_back(record), false; };
  while (records_.empty()) {
    int64_t got = file_->read(scanned, bytes_.data(), kReadAhead);
    if (got <= 0) return scanner.finish(first);
    scanner.feed(std::string_view(bytes_).substr(0, static_cast<size_t>(got)), first);
    scanned += got;
  }
}

template <class Scanner>
void RecordCursor<Scanner>::fill() {
  records_.clear();
  given_ = 0;
  base_ = position_.offset;
  for (int64_t window = kReadAhead;; window = std::min(window * 4, max_bytes_ + kReadAhead)) {
    bytes_.resize(static_cast<size_t>(window + kPadding));
    int64_t got = file_->read(base_, bytes_.data(), window);
    if (got < 0) throw UserError(ExitCode::bad_data, file_->path().string() + ": cannot be read to its end (input error)");
    Scanner scanner = first_.restarted(position_);
    auto keep = [&](const Record& record) { return records_.push_back(record), true; };
    scanner.feed(std::string_view(bytes_).substr(0, static_cast<size_t>(got)), keep);
    if (got < window)
      scanner.finish(keep);
    else if (records_.empty() && window > max_bytes_)
      skip_long_record(scanner, base_ + got);
    after_window_ = scanner.boundary();
    if (!records_.empty() || got < window) return;
  }
}

template <class Scanner>
std::optional<RecordText> RecordCursor<Scanner>::next() {
  if (given_ == records_.size()) fill();
  if (records_.empty()) return std::nullopt;
  const Record record = records_[given_++];
  position_ = given_ < records_.size() ? ScanPoint{records_[given_].begin, records_[given_].line} : after_window_;
  if (record.end - record.begin > max_bytes_) return RecordText{"", record.line, RecordText::Status::too_long};
  auto text =
      std::string_view(bytes_).substr(static_cast<size_t>(record.begin - base_), static_cast<size_t>(record.end - record.begin));
  return RecordText{text, record.line, RecordText::Status::ok};
}

template class RecordCursor<LineScanner>;
template class RecordCursor<CsvScanner>;
template class RecordCursor<JsonScanner>;

}  // namespace hone::data
