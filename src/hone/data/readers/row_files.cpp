// Opens a dataset file: selects the scanner that finds its records and the decoder that turns a record into a row.

#include <algorithm>

#include "hone/base/log.h"
#include "hone/data/readers/csv.h"
#include "hone/data/readers/encoding.h"
#include "hone/data/readers/json_row.h"
#include "hone/data/readers/parquet.h"
#include "hone/data/readers/record_cursor.h"
#include "hone/data/readers/row_reader.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

using Decoder = std::function<Result<Json>(std::string_view record, const RowOrigin& origin)>;

Result<Row> decode_record(const RecordText& record, const std::string& file, int64_t max_bytes, const Decoder& decode) {
  RowOrigin origin{file, record.line, ""};
  if (record.status == RecordText::Status::too_long)
    return row_error(RowProblem::too_long, origin.str(),
                     fmt::format("a row of more than {} bytes; expected at most that many", max_bytes));
  if (record.status == RecordText::Status::unreadable)
    return row_error(RowProblem::file, origin.str(), "the file changed or ends early; expected it as it was when opened");
  auto fields = decode(record.text, origin);
  if (!fields) return Error{fields.error()};
  return Row{std::move(fields).value(), std::move(origin)};
}

template <class Scanner>
class RecordRows : public RowReader {
 public:
  RecordRows(RecordFile<Scanner> records, int64_t max_bytes, Decoder decode)
      : records_(std::move(records)), file_(records_.file().path().string()), max_bytes_(max_bytes), decode_(std::move(decode)) {}
  int64_t size() const override { return records_.rows(); }
  Result<Row> at(int64_t index) const override { return decode_record(records_.at(index), file_, max_bytes_, decode_); }

 private:
  RecordFile<Scanner> records_;
  std::string file_;
  int64_t max_bytes_;
  Decoder decode_;
};

template <class Scanner>
class RecordStream : public RowStream {
 public:
  RecordStream(RecordCursor<Scanner> cursor, int64_t max_bytes, Decoder decode)
      : cursor_(std::move(cursor)), file_(cursor_.file().path().string()), max_bytes_(max_bytes), decode_(std::move(decode)) {}
  std::optional<Result<Row>> next() override {
    auto record = cursor_.next();
    if (!record) return std::nullopt;
    return decode_record(*record, file_, max_bytes_, decode_);
  }
  Json position() const override { return {{"offset", cursor_.position().offset}, {"line", cursor_.position().line}}; }
  void seek(const Json& position) override {
    cursor_.seek({position.at("offset").get<int64_t>(), position.at("line").get<int64_t>()});
  }

 private:
  RecordCursor<Scanner> cursor_;
  std::string file_;
  int64_t max_bytes_;
  Decoder decode_;
};

Result<Json> decode_text_line(std::string_view record, const RowOrigin& origin) {
  if (record.ends_with('\r')) record.remove_suffix(1);
  if (auto problem = encoding_problem(record); !problem.empty()) return row_error(RowProblem::encoding, origin.str(), problem);
  return Json{{"text", std::string(record)}};
}

struct Opened {
  std::shared_ptr<const PlainFile> file;
  ScanPoint start;   // after a byte order mark and, for CSV, the header
  std::string head;  // the first bytes, for format detection
};

Opened open_plain(const fs::path& path) {
  Opened opened{std::make_shared<PlainFile>(path), {}, {}};
  opened.head.resize(static_cast<size_t>(std::min<int64_t>(opened.file->size(), 1 << 16)));
  opened.head.resize(static_cast<size_t>(
      std::max<int64_t>(0, opened.file->read(0, opened.head.data(), static_cast<int64_t>(opened.head.size())))));
  if (has_utf16_mark(opened.head))
    throw UserError(ExitCode::bad_data, fmt::format("{}: {}", path.string(), encoding_problem(opened.head)));
  if (opened.head.starts_with("\xEF\xBB\xBF")) {
    opened.start.offset = 3;
    opened.head.erase(0, 3);
  }
  return opened;
}

ScanPoint advanced(ScanPoint start, std::string_view passed) {
  return {start.offset + static_cast<int64_t>(passed.size()), start.line + std::count(passed.begin(), passed.end(), '\n')};
}

// The offset after `{"data": [` if the file starts with it.
std::optional<size_t> data_list(std::string_view head) {
  size_t at = 0;
  for (std::string_view token : {"{", "\"data\"", ":", "["}) {
    at = head.find_first_not_of(" \t\r\n", at);
    if (at == head.npos || !head.substr(at).starts_with(token)) return std::nullopt;
    at += token.size();
  }
  return at;
}

enum class JsonKind { lines, array, member, sequence };
struct JsonLayout {
  JsonKind kind;
  ScanPoint start;
};

JsonLayout json_layout(const Opened& opened) {
  std::string_view head = opened.head;
  if (auto at = data_list(head)) return {JsonKind::member, advanced(opened.start, head.substr(0, *at))};
  auto first = head.find_first_not_of(" \t\r\n");
  if (first != head.npos && head[first] == '[') return {JsonKind::array, advanced(opened.start, head.substr(0, first + 1))};
  // An object that continues after its first line is not JSONL. After a broken first line of JSONL, the next has brackets again.
  auto line = head.substr(first == head.npos ? 0 : first);
  auto newline = line.find('\n');
  auto rest = newline == line.npos ? std::string_view() : line.substr(newline + 1);
  auto next = rest.find_first_not_of(" \t\r\n");
  bool spread = line.starts_with('{') && next != rest.npos && rest[next] != '{' && !parse_json(line.substr(0, newline));
  return {spread ? JsonKind::sequence : JsonKind::lines, opened.start};
}

struct CsvHeader {
  std::vector<std::string> columns;
  ScanPoint start;
};

CsvHeader read_csv_header(const Opened& opened, char separator) {
  CsvHeader header{{}, opened.start};
  RecordCursor<CsvScanner> cursor(opened.file, CsvScanner(opened.start), opened.start, 1 << 20);
  auto first = cursor.next();
  if (!first) return header;
  auto fail = [&](const std::string& why) -> CsvHeader {
    throw UserError(ExitCode::bad_data, fmt::format("{}:1: {}", opened.file->path().string(), why),
                    "the first line must name the columns");
  };
  if (first->status != RecordText::Status::ok) return fail("a header of more than 1 MiB; expected column names");
  if (auto problem = encoding_problem(first->text); !problem.empty()) return fail(problem);
  auto columns = split_csv_record(first->text, separator);
  if (!columns) return fail(columns.error());
  constexpr size_t kMostColumns = 10'000;
  if (columns->size() > kMostColumns) return fail(fmt::format("{} columns; at most {} are read", columns->size(), kMostColumns));
  std::vector<std::string> sorted = *columns;
  std::sort(sorted.begin(), sorted.end());
  if (auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    return fail(fmt::format("column \"{}\" is named twice; expected each name once", *twice));
  return {std::move(columns).value(), cursor.position()};
}

// A list without its closing bracket was truncated: rows are missing and cannot be counted.
void warn_if_cut_short(const PlainFile& file, JsonKind kind) {
  if (kind != JsonKind::array && kind != JsonKind::member) return;
  std::string tail(static_cast<size_t>(std::min<int64_t>(file.size(), 4096)), '\0');
  if (file.read(file.size() - static_cast<int64_t>(tail.size()), tail.data(), static_cast<int64_t>(tail.size())) < 0) return;
  auto last = tail.find_last_not_of(" \t\r\n");
  if (last == tail.npos || tail[last] == (kind == JsonKind::array ? ']' : '}')) return;
  log::warn_once(fmt::format("{}: the list of rows is not closed; the file seems to be truncated", file.path().string()));
}

// Calls `use(scanner, start, decoder)` with those that match the file.
template <class Use>
auto with_layout(const fs::path& path, const Opened& opened, Use&& use) {
  auto extension = path.extension().string();
  if (extension == ".txt") return use(LineScanner(opened.start), opened.start, Decoder(decode_text_line));
  if (extension == ".csv" || extension == ".tsv") {
    char separator = extension == ".tsv" ? '\t' : ',';
    auto header = read_csv_header(opened, separator);
    auto decode = [separator, columns = header.columns](std::string_view record, const RowOrigin& origin) {
      return parse_csv_row(record, separator, columns, origin);
    };
    return use(CsvScanner(header.start), header.start, Decoder(decode));
  }
  auto layout = json_layout(opened);
  if (layout.kind == JsonKind::lines) return use(LineScanner(layout.start), layout.start, Decoder(parse_json_row));
  warn_if_cut_short(*opened.file, layout.kind);
  auto scanner_layout = layout.kind == JsonKind::array    ? JsonScanner::Layout::array
                        : layout.kind == JsonKind::member ? JsonScanner::Layout::member
                                                          : JsonScanner::Layout::sequence;
  return use(JsonScanner(layout.start, scanner_layout), layout.start, Decoder(parse_json_row));
}

void check_extension(const fs::path& path) {
  if (is_dataset_file(path)) return;
  throw UserError(ExitCode::bad_data,
                  fmt::format("{}: unknown dataset file type \"{}\"", path.string(), path.extension().string()),
                  "expected .jsonl, .json, .csv, .tsv, .txt or .parquet");
}

}  // namespace

bool is_dataset_file(const fs::path& file) {
  static const std::vector<std::string> known = {".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet"};
  return std::find(known.begin(), known.end(), file.extension().string()) != known.end();
}

std::unique_ptr<RowReader> open_rows(const fs::path& path, const ReaderOptions& options) {
  check_extension(path);
  if (path.extension() == ".parquet") return open_parquet(path);
  auto opened = open_plain(path);
  return with_layout(path, opened,
                     [&]<class Scanner>(Scanner scanner, ScanPoint start, Decoder decode) -> std::unique_ptr<RowReader> {
                       RecordFile<Scanner> records(opened.file, scanner, start, options.max_row_bytes);
                       return std::make_unique<RecordRows<Scanner>>(std::move(records), options.max_row_bytes, std::move(decode));
                     });
}

std::unique_ptr<RowStream> open_row_stream(const fs::path& path, const ReaderOptions& options) {
  check_extension(path);
  if (path.extension() == ".parquet") return stream_rows(open_parquet(path));
  auto opened = open_plain(path);
  return with_layout(
      path, opened, [&]<class Scanner>(Scanner scanner, ScanPoint start, Decoder decode) -> std::unique_ptr<RowStream> {
        RecordCursor<Scanner> cursor(opened.file, scanner, start, options.max_row_bytes);
        return std::make_unique<RecordStream<Scanner>>(std::move(cursor), options.max_row_bytes, std::move(decode));
      });
}

}  // namespace hone::data
