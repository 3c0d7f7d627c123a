#include "hone/data/readers/row_reader.h"

#include <algorithm>

namespace hone::data {
namespace {

class ConcatRows : public RowReader {
 public:
  explicit ConcatRows(std::vector<std::unique_ptr<RowReader>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
  }
  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Result<Row> at(int64_t index) const override {
    auto part = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    return parts_[part]->at(part == 0 ? index : index - ends_[part - 1]);
  }

 private:
  std::vector<std::unique_ptr<RowReader>> parts_;
  std::vector<int64_t> ends_;
};

class ConcatStreams : public RowStream {
 public:
  explicit ConcatStreams(std::vector<std::unique_ptr<RowStream>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) starts_.push_back(part->position());
  }
  std::optional<Result<Row>> next() override {
    for (; current_ < parts_.size(); ++current_)
      if (auto row = parts_[current_]->next()) return row;
    return std::nullopt;
  }
  Json position() const override {
    return {{"part", current_}, {"at", current_ < parts_.size() ? parts_[current_]->position() : Json()}};
  }
  void seek(const Json& position) override {
    current_ = position.at("part").get<size_t>();
    for (size_t i = current_; i < parts_.size(); ++i) parts_[i]->seek(i == current_ ? position.at("at") : starts_[i]);
  }

 private:
  std::vector<std::unique_ptr<RowStream>> parts_;
  std::vector<Json> starts_;
  size_t current_ = 0;
};

class IndexedStream : public RowStream {
 public:
  explicit IndexedStream(std::shared_ptr<RowReader> rows) : rows_(std::move(rows)) {}
  std::optional<Result<Row>> next() override {
    if (row_ >= rows_->size()) return std::nullopt;
    return rows_->at(row_++);
  }
  Json position() const override { return row_; }
  void seek(const Json& position) override { row_ = position.get<int64_t>(); }

 private:
  std::shared_ptr<RowReader> rows_;
  int64_t row_ = 0;
};

constexpr int64_t kSniffedRows = 32;

}  // namespace

std::unique_ptr<RowReader> concat_rows(std::vector<std::unique_ptr<RowReader>> parts) {
  return parts.size() == 1 ? std::move(parts.front()) : std::make_unique<ConcatRows>(std::move(parts));
}

std::unique_ptr<RowStream> concat_streams(std::vector<std::unique_ptr<RowStream>> parts) {
  return parts.size() == 1 ? std::move(parts.front()) : std::make_unique<ConcatStreams>(std::move(parts));
}

std::unique_ptr<RowStream> stream_rows(std::shared_ptr<RowReader> rows) {
  return std::make_unique<IndexedStream>(std::move(rows));
}

std::vector<std::string> sniff_columns(RowStream& rows) {
  std::vector<std::string> columns;
  auto start = rows.position();
  for (int64_t i = 0; i < kSniffedRows; ++i) {
    auto row = rows.next();
    if (!row) break;
    if (!row->ok()) continue;
    for (const auto& field : (*row)->fields.items())
      if (std::find(columns.begin(), columns.end(), field.key()) == columns.end()) columns.push_back(field.key());
  }
  rows.seek(start);
  return columns;
}

}  // namespace hone::data
