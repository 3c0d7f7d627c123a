// Finds the boundaries of records: lines, CSV records with quoted newlines, elements of a JSON array or sequence. A scanner is
// fed consecutive chunks of a file and calls emit(Record) -> bool (false stops) as each record ends.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace hone::data {

// Bytes [begin, end) of the file; `line` is the 1-based line of its start.
struct Record {
  int64_t begin, end, line;
};

// A position at which a scan may restart: a record boundary.
struct ScanPoint {
  int64_t offset = 0, line = 1;
};

inline bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

// A scanner's boundary() is the start of the open record; restarted(point) scans the same layout from a boundary.
class LineScanner {
 public:
  explicit LineScanner(ScanPoint start = {}) : fed_(start.offset), begin_(start.offset), line_(start.line) {}

  template <class Emit>
  void feed(std::string_view piece, Emit&& emit) {
    while (!piece.empty()) {
      auto newline = static_cast<const char*>(std::memchr(piece.data(), '\n', piece.size()));
      auto part = piece.substr(0, newline ? static_cast<size_t>(newline - piece.data()) : piece.size());
      blank_ = blank_ && is_blank(part);
      fed_ += static_cast<int64_t>(part.size());
      if (!newline) return;
      Record record{begin_, fed_, line_++};
      bool wanted = !blank_;
      begin_ = ++fed_;
      blank_ = true;
      if (wanted && !emit(record)) return;
      piece.remove_prefix(part.size() + 1);
    }
  }
  template <class Emit>
  void finish(Emit&& emit) {
    if (!blank_) emit(Record{begin_, fed_, line_});
    blank_ = true;
    begin_ = fed_;
  }
  LineScanner restarted(ScanPoint point) const { return LineScanner(point); }
  ScanPoint boundary() const { return {begin_, line_}; }

 private:
  int64_t fed_, begin_, line_;
  bool blank_ = true;
};

class CsvScanner {
 public:
  explicit CsvScanner(ScanPoint start = {})
      : fed_(start.offset), begin_(start.offset), line_(start.line), first_line_(start.line) {}

  template <class Emit>
  void feed(std::string_view piece, Emit&& emit) {
    for (char c : piece) {
      ++fed_;
      if (c == '"') quoted_ = !quoted_;
      if (c != '\n') {
        blank_ = blank_ && (c == ' ' || c == '\t' || c == '\r');
        continue;
      }
      ++line_;
      if (quoted_) continue;
      Record record{begin_, fed_ - 1, first_line_};
      bool wanted = !blank_;
      begin_ = fed_;
      first_line_ = line_;
      blank_ = true;
      if (wanted && !emit(record)) return;
    }
  }
  template <class Emit>
  void finish(Emit&& emit) {
    if (!blank_) emit(Record{begin_, fed_, first_line_});
    blank_ = true;
    begin_ = fed_;
  }
  CsvScanner restarted(ScanPoint point) const { return CsvScanner(point); }
  ScanPoint boundary() const { return {begin_, first_line_}; }

 private:
  int64_t fed_, begin_, line_, first_line_;
  bool quoted_ = false, blank_ = true;
};

// Starts inside an array (after its opening bracket) or between the values of a sequence. Only brackets, quotes and commas matter
// here; the parser validates the elements.
class JsonScanner {
 public:
  enum class Layout { array, member, sequence };  // member: the array is an object's; text after it is not read
  explicit JsonScanner(ScanPoint start = {}, Layout layout = Layout::array)
      : layout_(layout), fed_(start.offset), begin_(start.offset), line_(start.line), first_line_(start.line) {}

  template <class Emit>
  void feed(std::string_view piece, Emit&& emit) {
    for (const char *p = piece.data(), *end = p + piece.size(); p < end; ++p, ++fed_) {
      if (after_ && layout_ == Layout::member) continue;
      if (in_string_) {
        if (escaped_)
          escaped_ = false;
        else if (*p == '\\')
          escaped_ = true;
        else if (*p == '"')
          in_string_ = false;
        else if (*p == '\n')
          ++line_;
        continue;
      }
      if (!step(*p, emit)) return;
    }
  }
  template <class Emit>
  void finish(Emit&& emit) {
    if (started_) emit(Record{begin_, fed_, first_line_});
    started_ = false;
  }
  JsonScanner restarted(ScanPoint point) const { return JsonScanner(point, layout_); }
  // The start of the open element, or of what comes next.
  ScanPoint boundary() const { return started_ ? ScanPoint{begin_, first_line_} : ScanPoint{fed_, line_}; }

 private:
  template <class Emit>
  bool step(char c, Emit& emit) {
    switch (c) {
      case '\n':
        ++line_;
        return true;
      case ' ':
      case '\t':
      case '\r':
        return true;
      case ',':
        return layout_ != Layout::sequence && depth_ == 0 && !after_ ? close(emit, fed_) : (start(), true);
      case ']':
      case '}':
        if (depth_ == 0 && layout_ != Layout::sequence && !after_) {
          after_ = true;
          return close(emit, fed_);
        }
        start();
        depth_ -= depth_ > 0;
        return depth_ == 0 && layout_ == Layout::sequence ? close(emit, fed_ + 1) : true;
      case '[':
      case '{':
        start();
        ++depth_;
        return true;
      case '"':
        start();
        in_string_ = true;
        return true;
      default:
        start();
        return true;
    }
  }
  void start() {
    if (started_) return;
    started_ = true;
    begin_ = fed_;
    first_line_ = line_;
  }
  template <class Emit>
  bool close(Emit& emit, int64_t end) {
    if (!started_) return true;
    started_ = false;
    Record record{begin_, end, first_line_};
    if (emit(record)) return true;
    ++fed_;
    return false;
  }

  Layout layout_;
  int64_t fed_, begin_, line_, first_line_;
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false, started_ = false, after_ = false;  // after_: past the array's closing bracket
};

}  // namespace hone::data
