#include "hone/data/readers/parquet.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <list>
#include <mutex>

#include "hone/data/readers/with_arrow/arrow_value.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

constexpr int64_t kCacheBytes = 256 << 20;

// Decodes whole row groups and caches recently used ones up to kCacheBytes, so that a shuffled pass does not decode one per row.
class ParquetRows : public RowReader {
 public:
  explicit ParquetRows(const fs::path& path) : file_(path.string()) {
    auto input = arrow::io::ReadableFile::Open(file_);
    if (!input.ok()) fail(input.status());
    parquet::arrow::FileReaderBuilder builder;
    if (auto status = builder.Open(*input); !status.ok()) fail(status);
    if (auto status = builder.Build(&reader_); !status.ok()) fail(status);
    auto metadata = reader_->parquet_reader()->metadata();
    for (int i = 0; i < metadata->num_row_groups(); ++i)
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + metadata->RowGroup(i)->num_rows());
  }

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }

  Result<Row> at(int64_t index) const override {
    RowOrigin origin{file_, index + 1, ""};
    auto group = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    auto table = load(static_cast<int>(group));
    if (!table.ok()) return row_error(RowProblem::file, origin.str(), table.status().ToString());
    int64_t row = group == 0 ? index : index - ends_[group - 1];
    Json fields = Json::object();
    for (int i = 0; i < (*table)->num_columns(); ++i) {
      const auto& column = *(*table)->column(i);
      if (column.num_chunks() != 1) return row_error(RowProblem::file, origin.str(), "a row group in pieces; expected one");
      auto value = arrow_value(*column.chunk(0), row);
      if (!value)
        return row_error(RowProblem::type, origin.str(),
                         fmt::format("column \"{}\": {}", (*table)->field(i)->name(), value.error()));
      fields[(*table)->field(i)->name()] = std::move(value).value();
    }
    return Row{std::move(fields), std::move(origin)};
  }

 private:
  [[noreturn]] void fail(const arrow::Status& status) const {
    throw UserError(ExitCode::bad_data, fmt::format("{}: {}; expected a Parquet file", file_, status.message()));
  }

  arrow::Result<std::shared_ptr<arrow::Table>> load(int group) const {
    std::lock_guard lock(mutex_);
    auto found = std::find_if(cache_.begin(), cache_.end(), [&](const Cached& entry) { return entry.group == group; });
    if (found != cache_.end()) {
      cache_.splice(cache_.begin(), cache_, found);
      return found->table;
    }
    ARROW_ASSIGN_OR_RAISE(auto raw, reader_->ReadRowGroup(group));
    ARROW_ASSIGN_OR_RAISE(auto table, raw->CombineChunks());
    int64_t bytes = reader_->parquet_reader()->metadata()->RowGroup(group)->total_byte_size();
    cache_.push_front({group, table, bytes});
    cached_bytes_ += bytes;
    while (cached_bytes_ > kCacheBytes && cache_.size() > 1) {
      cached_bytes_ -= cache_.back().bytes;
      cache_.pop_back();
    }
    return table;
  }

  struct Cached {
    int group;
    std::shared_ptr<arrow::Table> table;
    int64_t bytes;
  };
  std::string file_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int64_t> ends_;
  mutable std::mutex mutex_;
  mutable std::list<Cached> cache_;
  mutable int64_t cached_bytes_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_parquet(const fs::path& file) {
  try {
    return std::make_unique<ParquetRows>(file);
  } catch (const parquet::ParquetException& cause) {
    throw UserError(ExitCode::bad_data, fmt::format("{}: {}; expected a Parquet file", file.string(), cause.what()));
  }
}

bool can_read_parquet() { return true; }

}  // namespace hone::data
