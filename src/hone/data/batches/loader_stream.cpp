// The loader over a stream: blocks of rows are read in order and encoded in parallel. Shuffling is confined to a block, so a
// resume re-reads at most one block.
#include <algorithm>
#include <condition_variable>
#include <deque>

#include "hone/base/error.h"
#include "hone/base/usable_cores.h"
#include "hone/data/batches/batch_sampler.h"

namespace hone::data {
namespace {

struct Block {
  int64_t epoch = 0, index = 0;  // in the epoch
  int64_t first_row = 0;         // rows of the epoch before this block
  Json position;                 // position in the stream before its first row
  std::vector<LazyBatch> batches;
};

class StreamLoader : public Loader {
 public:
  StreamLoader(std::unique_ptr<ConversationStream> stream, std::shared_ptr<const Encoder> encoder, const LoaderConfig& config,
               std::shared_ptr<RowReport> report, size_t threads)
      : stream_(std::move(stream)),
        start_(stream_->position()),
        encoder_(std::move(encoder)),
        config_(config),
        report_(std::move(report)),
        capacity_(pack_capacity(config, *encoder_)),
        pool_(threads),
        batches_(config_, pool_) {
    int64_t group = config.batch_size * config.world_size,
            wanted = std::max<int64_t>(config.shuffle ? config.shuffle_buffer : 1, 1);
    if (config.packing != Packing::none) wanted = std::max(wanted, config.packing_window);
    block_rows_ = (wanted + group - 1) / group * group;
  }
  ~StreamLoader() override { drain(); }

  Batch next() override {
    int64_t first_epoch = block_.epoch;
    while (batches_.is_over()) {
      int64_t before = block_.epoch;
      block_ = take_block();
      batches_.start(std::move(block_.batches));
      if (block_.epoch != before) given_ = 0;
      if (batches_.size() == 0 && block_.epoch > first_epoch + 1)
        throw UserError(ExitCode::bad_data, "a full pass over the stream has no usable row\n" + report_->summary(),
                        "check the columns, the template and `max_length`");
    }
    ++given_;
    return batches_.next();
  }

  int64_t batches_per_epoch() const override { return -1; }
  // A pass of unknown length is counted as in transformers: as if it took the whole run, and as 1 when it ends.
  double epoch() const override {
    double inside = config_.batches_per_stream_epoch > 0
                        ? static_cast<double>(given_) / static_cast<double>(config_.batches_per_stream_epoch)
                        : 0;
    return static_cast<double>(block_.epoch) + inside;
  }

  Json state() const override {
    return {{"epoch", block_.epoch},         {"block", block_.index},
            {"first_row", block_.first_row}, {"position", block_.position.is_null() ? start_ : block_.position},
            {"offset", batches_.offset()},   {"given", given_}};
  }

  void restore(const Json& state) override {
    drain();
    reader_ = {.epoch = state.at("epoch").get<int64_t>(),
               .index = state.at("block").get<int64_t>(),
               .first_row = state.at("first_row").get<int64_t>()};
    stream_->seek(state.at("position"));
    auto offset = state.at("offset").get<size_t>();
    block_ = {};
    block_.epoch = reader_.epoch;
    given_ = state.value("given", int64_t{0});
    batches_.start({});
    if (offset == 0) return;
    block_ = take_block();
    if (offset > block_.batches.size())
      throw UserError(ExitCode::bad_checkpoint, "the data position in the checkpoint does not fit the stream",
                      "resume with the dataset and options of the first run, or with `ignore_data_skip` true");
    batches_.start(std::move(block_.batches), offset);
  }

 private:
  struct Rows {
    Block block;
    std::vector<std::pair<int64_t, Result<Conversation>>> rows;
  };

  // Only one job reads at a time, in submission order.
  Rows read_block(uint64_t ticket) {
    std::unique_lock lock(reading_);
    serving_changed_.wait(lock, [&] { return now_serving_ == ticket; });
    Rows read;
    try {
      read = read_rows();
    } catch (...) {
      ++now_serving_;
      serving_changed_.notify_all();
      throw;
    }
    ++now_serving_;
    serving_changed_.notify_all();
    return read;
  }

  Rows read_rows() {
    Rows read{
        .block = {
            .epoch = reader_.epoch, .index = reader_.index, .first_row = reader_.first_row, .position = stream_->position()}};
    int64_t row = reader_.first_row;
    for (int64_t count = 0; count < block_rows_; ++count, ++row) {
      auto conversation = stream_->next();
      if (!conversation) {
        stream_->seek(start_);
        reader_ = {.epoch = reader_.epoch + 1};
        return read;
      }
      if (row % config_.world_size == config_.rank) read.rows.emplace_back(row, std::move(*conversation));
    }
    reader_.first_row = row;
    ++reader_.index;
    return read;
  }

  Block build(uint64_t ticket) {
    auto read = read_block(ticket);
    std::vector<SamplePack> samples;
    for (auto& [row, conversation] : read.rows) {
      auto encoded = conversation ? encode_conversation(*encoder_, *conversation, config_, row)
                                  : Result<SamplePack>(Error{conversation.error()});
      if (read.block.epoch == 0) encoded ? report_->good_row() : report_->bad_row(encoded.error());
      if (!encoded) continue;
      if (config_.keeps_rows_together())
        samples.push_back(std::move(*encoded));
      else
        for (auto& sample : *encoded) samples.push_back({std::move(sample)});
    }
    sample_candidates(samples, config_, read.block.epoch);
    Rng shuffle(config_.seed, static_cast<uint64_t>(read.block.epoch) << 32 | static_cast<uint64_t>(read.block.index));
    if (config_.shuffle) shuffle.shuffle(samples);
    read.block.batches = pack_batches(std::move(samples), config_, capacity_, config_.shuffle ? &shuffle : nullptr, *encoder_);
    return std::move(read.block);
  }

  Block take_block() {
    while (under_way_.size() < pool_.size() + 1)
      under_way_.push_back(pool_.submit([this, ticket = next_ticket_++] { return build(ticket); }));
    auto block = std::move(under_way_.front());
    under_way_.pop_front();
    return block.get();
  }

  void drain() {
    for (auto& block : under_way_) block.wait();
    under_way_.clear();
  }

  std::unique_ptr<ConversationStream> stream_;
  Json start_;
  std::shared_ptr<const Encoder> encoder_;
  LoaderConfig config_;
  std::shared_ptr<RowReport> report_;
  int64_t capacity_, block_rows_ = 1;
  Block reader_;  // start of the next block; guarded by reading_
  std::mutex reading_;
  std::condition_variable serving_changed_;
  uint64_t now_serving_ = 0, next_ticket_ = 0;
  Block block_;
  int64_t given_ = 0;  // in this pass
  std::deque<std::future<Block>> under_way_;
  ThreadPool pool_;
  BatchGroup batches_;  // of block_
};

}  // namespace

std::unique_ptr<Loader> make_loader(std::unique_ptr<ConversationStream> stream, std::shared_ptr<const Encoder> encoder,
                                    LoaderConfig config, std::shared_ptr<RowReport> report) {
  HONE_CHECK(config.batch_size > 0 && config.world_size > 0 && config.rank < config.world_size);
  auto threads = config.threads ? config.threads : static_cast<size_t>(usable_cores());
  return std::make_unique<StreamLoader>(std::move(stream), std::move(encoder), config, std::move(report), threads);
}

}  // namespace hone::data
