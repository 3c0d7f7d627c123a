#include "hone/data/datasets/sources.h"

#include <algorithm>

namespace hone::data {
namespace {

Result<Conversation> converted(Result<Row> row, const RowFormat& format, const std::string& dataset) {
  if (!row) return Error{row.error()};
  row->origin.dataset = dataset;
  return format.convert(std::move(row).value());
}

class FormatSource : public ConversationSource {
 public:
  FormatSource(std::unique_ptr<RowReader> rows, std::shared_ptr<const RowFormat> format, std::string dataset)
      : rows_(std::move(rows)), format_(std::move(format)), dataset_(std::move(dataset)) {}
  int64_t size() const override { return rows_->size(); }
  Result<Conversation> at(int64_t index) const override { return converted(rows_->at(index), *format_, dataset_); }

 private:
  std::unique_ptr<RowReader> rows_;
  std::shared_ptr<const RowFormat> format_;
  std::string dataset_;
};

class SelectSource : public ConversationSource {
 public:
  SelectSource(SourcePtr base, RowOrder order) : base_(std::move(base)), order_(std::move(order)) {}
  int64_t size() const override { return static_cast<int64_t>(order_.size()); }
  Result<Conversation> at(int64_t index) const override { return base_->at(order_[static_cast<size_t>(index)]); }

 private:
  SourcePtr base_;
  RowOrder order_;
};

class ConcatSource : public ConversationSource {
 public:
  explicit ConcatSource(std::vector<SourcePtr> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
  }
  int64_t size() const override { return ends_.back(); }
  Result<Conversation> at(int64_t index) const override {
    auto part = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    return parts_[part]->at(part == 0 ? index : index - ends_[part - 1]);
  }

 private:
  std::vector<SourcePtr> parts_;
  std::vector<int64_t> ends_;
};

class InMemorySource : public ConversationSource {
 public:
  explicit InMemorySource(std::vector<Result<Conversation>> rows) : rows_(std::move(rows)) {}
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  Result<Conversation> at(int64_t index) const override { return rows_[static_cast<size_t>(index)]; }

 private:
  std::vector<Result<Conversation>> rows_;
};

}  // namespace

SourcePtr format_source(std::unique_ptr<RowReader> rows, std::shared_ptr<const RowFormat> format, std::string dataset) {
  return std::make_shared<FormatSource>(std::move(rows), std::move(format), std::move(dataset));
}

SourcePtr select_source(SourcePtr base, Selection selection) {
  return selection ? std::make_shared<SelectSource>(std::move(base), std::move(*selection)) : base;
}

SourcePtr concat_sources(std::vector<SourcePtr> parts) {
  if (parts.empty()) return nullptr;
  return parts.size() == 1 ? parts.front() : std::make_shared<ConcatSource>(std::move(parts));
}

SourcePtr hold_source(ConversationStream& stream, int64_t count) {
  std::vector<Result<Conversation>> rows;
  while (static_cast<int64_t>(rows.size()) < count) {
    auto row = stream.next();
    if (!row) break;
    rows.push_back(std::move(*row));
  }
  return std::make_shared<InMemorySource>(std::move(rows));
}

}  // namespace hone::data
