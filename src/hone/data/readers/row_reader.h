// Rows of dataset files: random access for a finite set, a stream for one pass. The format is detected by name and first
// bytes.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hone/base/file.h"
#include "hone/data/row.h"

namespace hone::data {

class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual int64_t size() const = 0;
  virtual Result<Row> at(int64_t index) const = 0;  // thread-safe
};

class RowStream {
 public:
  virtual ~RowStream() = default;
  virtual std::optional<Result<Row>> next() = 0;  // nullopt at the end
  virtual Json position() const = 0;
  virtual void seek(const Json& position) = 0;
};

struct ReaderOptions {
  int64_t max_row_bytes = 8 << 20;
};

// jsonl, json (list, object with a "data" list, or one value after another), csv, tsv, txt, parquet. Throws UserError naming the
// choices.
std::unique_ptr<RowReader> open_rows(const fs::path& file, const ReaderOptions& options = {});
std::unique_ptr<RowStream> open_row_stream(const fs::path& file, const ReaderOptions& options = {});
bool is_dataset_file(const fs::path& file);

std::unique_ptr<RowReader> concat_rows(std::vector<std::unique_ptr<RowReader>> parts);
std::unique_ptr<RowStream> concat_streams(std::vector<std::unique_ptr<RowStream>> parts);
// Streams what is already indexed; the position is the row number.
std::unique_ptr<RowStream> stream_rows(std::shared_ptr<RowReader> rows);

// The union of the keys of the next rows, in order of appearance (for column detection); the stream position is unchanged.
std::vector<std::string> sniff_columns(RowStream& rows);

}  // namespace hone::data
