#include <algorithm>

#include "hone/data/datasets/sources.h"

namespace hone::data {
namespace {

class FormatStream : public ConversationStream {
 public:
  FormatStream(std::unique_ptr<RowStream> rows, std::shared_ptr<const RowFormat> format, std::string dataset)
      : rows_(std::move(rows)), format_(std::move(format)), dataset_(std::move(dataset)) {}
  std::optional<Result<Conversation>> next() override {
    auto row = rows_->next();
    if (!row) return std::nullopt;
    if (!row->ok()) return Error{row->error()};
    (*row)->origin.dataset = dataset_;
    return format_->convert(std::move(*row).value());
  }
  Json position() const override { return rows_->position(); }
  void seek(const Json& position) override { rows_->seek(position); }

 private:
  std::unique_ptr<RowStream> rows_;
  std::shared_ptr<const RowFormat> format_;
  std::string dataset_;
};

class LimitStream : public ConversationStream {
 public:
  LimitStream(StreamPtr base, int64_t limit) : base_(std::move(base)), limit_(limit) {}
  std::optional<Result<Conversation>> next() override {
    if (given_ >= limit_) return std::nullopt;
    ++given_;
    return base_->next();
  }
  Json position() const override { return {{"given", given_}, {"base", base_->position()}}; }
  void seek(const Json& position) override {
    given_ = position.at("given").get<int64_t>();
    base_->seek(position.at("base"));
  }

 private:
  StreamPtr base_;
  int64_t limit_, given_ = 0;
};

std::vector<Json> positions(const std::vector<StreamPtr>& parts) {
  std::vector<Json> list;
  for (const auto& part : parts) list.push_back(part->position());
  return list;
}

class ConcatStream : public ConversationStream {
 public:
  explicit ConcatStream(std::vector<StreamPtr> parts) : parts_(std::move(parts)) {}
  std::optional<Result<Conversation>> next() override {
    for (; current_ < parts_.size(); ++current_)
      if (auto conversation = parts_[current_]->next()) return conversation;
    return std::nullopt;
  }
  Json position() const override { return {{"current", current_}, {"parts", positions(parts_)}}; }
  void seek(const Json& position) override {
    current_ = position.at("current").get<size_t>();
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i]->seek(position.at("parts").at(i));
  }

 private:
  std::vector<StreamPtr> parts_;
  size_t current_ = 0;
};

// The source of draw n depends only on the seed and n, so a position is a count.
class DrawnSources {
 public:
  DrawnSources(std::vector<double> probabilities, size_t sources, uint64_t seed)
      : probabilities_(std::move(probabilities)), sources_(sources), seed_(seed), random_(seed) {}
  size_t next() {
    auto draw = drawn_++;
    if (probabilities_.empty()) return static_cast<size_t>(draw) % sources_;
    if (draw % kBlock == 0) block_ = random_.choice(probabilities_, kBlock);
    return block_[static_cast<size_t>(draw % kBlock)];
  }
  int64_t drawn() const { return drawn_; }
  void seek(int64_t drawn) {
    drawn_ = drawn;
    if (probabilities_.empty()) return;
    random_ = NumpyGenerator(seed_);
    random_.advance(static_cast<uint64_t>(drawn / kBlock * kBlock));
    if (drawn % kBlock != 0) block_ = random_.choice(probabilities_, kBlock);
  }

 private:
  static constexpr int64_t kBlock = 1000;
  std::vector<double> probabilities_;
  size_t sources_;
  uint64_t seed_;
  NumpyGenerator random_;
  int64_t drawn_ = 0;
  std::vector<uint32_t> block_;
};

class InterleaveStream : public ConversationStream {
 public:
  InterleaveStream(std::vector<StreamPtr> parts, std::vector<double> probabilities, uint64_t seed, StoppingStrategy stopping)
      : parts_(std::move(parts)),
        starts_(positions(parts_)),
        draws_(std::move(probabilities), parts_.size(), seed),
        stopping_(stopping),
        exhausted_(parts_.size(), false) {}

  std::optional<Result<Conversation>> next() override {
    while (!finished_) {
      size_t source = draws_.next();
      bool once = stopping_ == StoppingStrategy::all_exhausted_once;
      if (once && exhausted_[source]) continue;
      if (auto conversation = parts_[source]->next()) return conversation;
      exhausted_[source] = true;
      bool all = std::find(exhausted_.begin(), exhausted_.end(), false) == exhausted_.end();
      finished_ = stopping_ == StoppingStrategy::first_exhausted || all;
      if (finished_ || once) continue;
      parts_[source]->seek(starts_[source]);
      if (auto conversation = parts_[source]->next()) return conversation;
      finished_ = true;  // an empty source can never be drawn from
    }
    return std::nullopt;
  }
  Json position() const override {
    return {{"drawn", draws_.drawn()}, {"exhausted", exhausted_}, {"finished", finished_}, {"parts", positions(parts_)}};
  }
  void seek(const Json& position) override {
    draws_.seek(position.at("drawn").get<int64_t>());
    exhausted_ = position.at("exhausted").get<std::vector<bool>>();
    if (exhausted_.size() != parts_.size())
      throw UserError(
          ExitCode::bad_checkpoint,
          fmt::format("the data position in the checkpoint is of {} datasets; {} are given", exhausted_.size(), parts_.size()),
          "resume with the datasets of the first run, or with `ignore_data_skip` true");
    finished_ = position.at("finished").get<bool>();
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i]->seek(position.at("parts").at(i));
  }

 private:
  std::vector<StreamPtr> parts_;
  std::vector<Json> starts_;
  DrawnSources draws_;
  StoppingStrategy stopping_;
  std::vector<bool> exhausted_;
  bool finished_ = false;
};

// A resumed shuffle buffer must hold the same rows, so the position records where each was read; seek() reads them again.
class ShuffleStream : public ConversationStream {
 public:
  ShuffleStream(StreamPtr base, int64_t capacity, uint64_t seed)
      : base_(std::move(base)), capacity_(static_cast<size_t>(std::max<int64_t>(capacity, 2))), seed_(seed) {}

  std::optional<Result<Conversation>> next() override {
    if (given_ == ready_) refill();
    if (given_ == ready_) return std::nullopt;
    return std::move(buffer_[given_++].row);
  }
  Json position() const override {
    Json kept = Json::array();
    for (size_t i = given_; i < buffer_.size(); ++i) kept.push_back(buffer_[i].origin);
    return {{"base", base_->position()}, {"round", round_}, {"ready", ready_ - given_}, {"kept", std::move(kept)}};
  }
  void seek(const Json& position) override;

 private:
  struct Held {
    Json origin;  // the base position this row was read from
    Result<Conversation> row;
  };
  void refill();
  StreamPtr base_;
  size_t capacity_;
  uint64_t seed_;
  std::vector<Held> buffer_;
  size_t given_ = 0, ready_ = 0;
  int64_t round_ = 0;
};

void ShuffleStream::refill() {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<long>(given_));
  given_ = 0;
  bool ended = false;
  while (buffer_.size() < capacity_ && !ended) {
    auto origin = base_->position();
    auto row = base_->next();
    if (row)
      buffer_.push_back({std::move(origin), std::move(*row)});
    else
      ended = true;
  }
  auto order = NumpyGenerator(seed_ + static_cast<uint64_t>(round_++)).permutation(static_cast<uint32_t>(buffer_.size()));
  std::vector<Held> mixed;
  mixed.reserve(buffer_.size());
  for (auto index : order) mixed.push_back(std::move(buffer_[index]));
  buffer_ = std::move(mixed);
  ready_ = ended ? buffer_.size() : buffer_.size() - capacity_ / 2;
}

void ShuffleStream::seek(const Json& position) {
  buffer_.clear();
  given_ = 0;
  for (const auto& origin : position.at("kept")) {
    base_->seek(origin);
    auto row = base_->next();
    if (row) buffer_.push_back({origin, std::move(*row)});
  }
  base_->seek(position.at("base"));
  round_ = position.at("round").get<int64_t>();
  ready_ = std::min(position.at("ready").get<size_t>(), buffer_.size());  // the file may have fewer rows now
}

}  // namespace

StreamPtr format_stream(std::unique_ptr<RowStream> rows, std::shared_ptr<const RowFormat> format, std::string dataset) {
  return std::make_unique<FormatStream>(std::move(rows), std::move(format), std::move(dataset));
}
StreamPtr limit_stream(StreamPtr base, int64_t limit) { return std::make_unique<LimitStream>(std::move(base), limit); }
StreamPtr concat_streams(std::vector<StreamPtr> parts) {
  return parts.size() == 1 ? std::move(parts.front()) : std::make_unique<ConcatStream>(std::move(parts));
}
StreamPtr interleave_streams(std::vector<StreamPtr> parts, std::vector<double> probabilities, uint64_t seed,
                             StoppingStrategy stopping) {
  return std::make_unique<InterleaveStream>(std::move(parts), std::move(probabilities), seed, stopping);
}
StreamPtr shuffle_stream(StreamPtr base, int64_t buffer, uint64_t seed) {
  return std::make_unique<ShuffleStream>(std::move(base), buffer, seed);
}

}  // namespace hone::data
