#include "hone/data/readers/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "hone/base/error.h"
#include "hone/base/usable_cores.h"

namespace hone::data {
namespace {

// Feeds [from, to) in chunks; `scan` returns false to stop.
template <class Scan>
void for_each_piece(const PlainFile& file, int64_t from, int64_t to, Scan&& scan) {
  std::string buffer(static_cast<size_t>(std::min(kReadAhead, std::max<int64_t>(to - from, 1))), '\0');
  while (from < to) {
    int64_t got = file.read(from, buffer.data(), std::min<int64_t>(static_cast<int64_t>(buffer.size()), to - from));
    if (got < 0) throw UserError(ExitCode::bad_data, file.path().string() + ": cannot be read to its end (input error)");
    if (got == 0) return;
    if (!scan(std::string_view(buffer.data(), static_cast<size_t>(got)))) return;
    from += got;
  }
}

// The first offset at or after `offset` that starts a line.
int64_t next_line_start(const PlainFile& file, int64_t offset, int64_t floor) {
  if (offset <= floor) return floor;
  int64_t position = offset - 1, found = file.size();
  for_each_piece(file, position, file.size(), [&](std::string_view piece) {
    auto newline = piece.find('\n');
    if (newline == piece.npos) return position += static_cast<int64_t>(piece.size()), true;
    found = position + static_cast<int64_t>(newline) + 1;
    return false;
  });
  return found;
}

struct Section {
  RecordIndex index;
  int64_t lines = 0;
};

Section scan_lines(const PlainFile& file, int64_t from, int64_t to) {
  Section section;
  LineScanner scanner({from, 1});
  auto add = [&](const Record& record) { return section.index.add(record), true; };
  for_each_piece(file, from, to, [&](std::string_view piece) { return scanner.feed(piece, add), true; });
  section.lines = scanner.boundary().line - 1;
  if (to == file.size()) scanner.finish(add);
  return section;
}

constexpr int64_t kSectionBytes = 32 << 20;

template <class Scanner>
RecordIndex build_index(const PlainFile& file, const Scanner& first, ScanPoint start) {
  RecordIndex index;
  Scanner scanner = first;
  auto add = [&](const Record& record) { return index.add(record), true; };
  for_each_piece(file, start.offset, file.size(), [&](std::string_view piece) { return scanner.feed(piece, add), true; });
  scanner.finish(add);
  return index;
}

RecordIndex build_index(const PlainFile& file, const LineScanner&, ScanPoint start) {
  auto count = static_cast<size_t>((file.size() - start.offset) / kSectionBytes + 1);
  std::vector<Section> sections(count);
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::once_flag failed;
  auto scan = [&] {
    for (size_t i; (i = next++) < count;) {
      auto from = next_line_start(file, start.offset + static_cast<int64_t>(i) * kSectionBytes, start.offset);
      auto to = i + 1 == count ? file.size()
                               : next_line_start(file, start.offset + static_cast<int64_t>(i + 1) * kSectionBytes, start.offset);
      if (from < to) sections[i] = scan_lines(file, from, to);
    }
  };
  auto work = [&] {
    try {
      scan();
    } catch (...) {
      std::call_once(failed, [&] { failure = std::current_exception(); });
    }
  };
  std::vector<std::jthread> helpers;
  for (size_t i = 1; i < std::min(count, static_cast<size_t>(usable_cores())); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  if (failure) std::rethrow_exception(failure);

  RecordIndex whole;
  int64_t lines = start.line - 1;
  for (auto& section : sections) {
    for (auto& entry : section.index.entries)
      whole.entries.push_back({entry.row + whole.rows, {entry.start.offset, entry.start.line + lines}});
    whole.rows += section.index.rows;
    lines += section.lines;
  }
  return whole;
}

}  // namespace

template <class Scanner>
RecordFile<Scanner>::RecordFile(std::shared_ptr<const PlainFile> file, Scanner first, ScanPoint start, int64_t max_bytes)
    : file_(std::move(file)), first_(first), max_bytes_(max_bytes), index_(build_index(*file_, first, start)), id_(next_id()) {}

template <class Scanner>
uint64_t RecordFile<Scanner>::next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

template <class Scanner>
const typename RecordFile<Scanner>::Span& RecordFile<Scanner>::load(size_t entry) const {
  static thread_local Span span;
  if (span.owner == id_ && span.entry == entry) return span;
  auto start = index_.entries[entry].start;
  int64_t end = entry + 1 < index_.entries.size() ? index_.entries[entry + 1].start.offset : file_->size();
  int64_t wanted = std::min(end - start.offset, kIndexStride + max_bytes_ + 1);
  span.owner = id_;
  span.entry = entry;
  span.offset = start.offset;
  span.records.clear();
  span.bytes.resize(static_cast<size_t>(wanted + kPadding));
  int64_t got = file_->read(start.offset, span.bytes.data(), wanted);
  span.readable = got == wanted;
  auto scanner = first_.restarted(start);
  auto keep = [&](const Record& record) { return span.records.push_back(record), true; };
  scanner.feed(std::string_view(span.bytes).substr(0, static_cast<size_t>(std::max<int64_t>(got, 0))), keep);
  scanner.finish(keep);
  return span;
}

template <class Scanner>
RecordText RecordFile<Scanner>::at(int64_t row) const {
  HONE_CHECK(row >= 0 && row < index_.rows, "row {} of {}", row, index_.rows);
  auto after = std::upper_bound(index_.entries.begin(), index_.entries.end(), row,
                                [](int64_t wanted, const IndexEntry& entry) { return wanted < entry.row; });
  auto entry = static_cast<size_t>(after - index_.entries.begin()) - 1;
  const Span& span = load(entry);
  auto within = static_cast<size_t>(row - index_.entries[entry].row);
  if (within >= span.records.size()) return {"", index_.entries[entry].start.line, RecordText::Status::unreadable};
  const Record& record = span.records[within];
  const int64_t line = index_.on_one_line() ? row + 1 : record.line;
  if (record.end - record.begin > max_bytes_) return {"", line, RecordText::Status::too_long};
  if (!span.readable) return {"", line, RecordText::Status::unreadable};
  auto text = std::string_view(span.bytes)
                  .substr(static_cast<size_t>(record.begin - span.offset), static_cast<size_t>(record.end - record.begin));
  return {text, line, RecordText::Status::ok};
}

template class RecordFile<LineScanner>;
template class RecordFile<CsvScanner>;
template class RecordFile<JsonScanner>;

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
