#include "hone/data/batches/loader.h"

#include <algorithm>
#include <deque>

#include "hone/base/error.h"
#include "hone/base/usable_cores.h"
#include "hone/data/batches/batch_sampler.h"
#include "hone/data/batches/permutation.h"

namespace hone::data {
namespace {

// Iterates over a sampler's batch groups, preparing the next groups on other threads.
class BatchSamplerLoader : public Loader {
 public:
  BatchSamplerLoader(std::shared_ptr<const BatchSampler> sampler, const LoaderConfig& config, std::unique_ptr<ThreadPool> pool)
      : config_(config), sampler_(std::move(sampler)), pool_(std::move(pool)), current_(config_, *pool_) {}

  Batch next() override {
    int empty_groups = 0;
    while (current_.is_over()) {
      if (started_) step_group();
      started_ = true;
      current_.start(take_group());
      if (current_.size() == 0 && ++empty_groups > sampler_->groups())
        throw UserError(ExitCode::bad_data, "a full epoch has no usable row", "check the columns, the template and `max_length`");
    }
    return current_.next();
  }

  int64_t batches_per_epoch() const override { return sampler_->batches(); }

  double epoch() const override {
    double inside = current_.size() == 0 ? 0 : static_cast<double>(current_.offset()) / static_cast<double>(current_.size());
    return static_cast<double>(epoch_) + (static_cast<double>(group_) + inside) / static_cast<double>(sampler_->groups());
  }

  Json state() const override {
    return {{"epoch", epoch_},
            {"unit", group_},
            {"offset", current_.offset()},
            {"unit_rows", sampler_->rows_per_group()},
            {"units", sampler_->groups()}};
  }

  bool can_reshard_state(const Json& state) const override { return state.contains("unit_rows"); }

  void restore(const Json& state) override {
    epoch_ = state.at("epoch").get<int64_t>();
    group_ = state.at("unit").get<int64_t>();
    auto offset = state.at("offset").get<size_t>();
    if (int64_t rows = state.value("unit_rows", sampler_->rows_per_group()); rows != sampler_->rows_per_group()) {
      const int64_t groups = group_ + static_cast<int64_t>(offset);
      // The last batch of an epoch may be short, so the end of the epoch does not follow from its row count.
      if (groups == state.value("units", int64_t{-1}))
        ++epoch_, group_ = 0;
      else
        group_ = same_place(groups, rows);
      offset = 0;
    }
    if (epoch_ < 0 || group_ < 0 || group_ >= sampler_->groups()) throw wrong_position();
    under_way_.clear();
    queued_epoch_ = epoch_, queued_group_ = group_;
    started_ = offset > 0;
    auto batches = started_ ? take_group() : std::vector<LazyBatch>();
    if (offset > batches.size()) throw wrong_position();
    current_.start(std::move(batches), offset);
  }

 private:
  static UserError wrong_position() {
    return UserError(ExitCode::bad_checkpoint, "the data position in the checkpoint is after the end of the data",
                     "resume with the dataset and options of the first run, or with `ignore_data_skip` true");
  }

  // The position at which as many rows of the epoch are consumed as after `groups` of `rows` each, for a checkpoint with another
  // number of processes or batch size.
  int64_t same_place(int64_t groups, int64_t rows) {
    int64_t own = sampler_->rows_per_group();
    if (rows <= 0 || own <= 0)
      throw UserError(ExitCode::bad_checkpoint,
                      "packed or length-grouped data cannot be continued with another number of processes",
                      "start as many as before, or restart the data with `ignore_data_skip` true");
    int64_t group = groups * rows / own;
    if (group < sampler_->groups()) return group;
    ++epoch_;
    return 0;
  }

  void step_group() {
    if (++group_ == sampler_->groups()) group_ = 0, ++epoch_;
  }

  std::vector<LazyBatch> take_group() {
    while (under_way_.size() < sampler_->prefetch(pool_->size())) {
      under_way_.push_back(pool_->submit(
          [sampler = sampler_, epoch = queued_epoch_, group = queued_group_] { return sampler->build(epoch, group); }));
      if (++queued_group_ == sampler_->groups()) queued_group_ = 0, ++queued_epoch_;
    }
    auto batches = under_way_.front().get();
    under_way_.pop_front();
    return batches;
  }

  const LoaderConfig config_;
  std::shared_ptr<const BatchSampler> sampler_;
  std::unique_ptr<ThreadPool> pool_;  // its threads end before what they use
  std::deque<std::future<std::vector<LazyBatch>>> under_way_;
  int64_t queued_epoch_ = 0, queued_group_ = 0;  // next group to submit to the pool
  int64_t epoch_ = 0, group_ = 0;                // group of `current_`
  BatchGroup current_;
  bool started_ = false;
};

// This rank's share of another sampler's batch groups. A rank without a share still builds one: a distributed model needs all
// processes in every pass. `batches` does not count it.
class DistributedBatchSampler : public BatchSampler {
 public:
  DistributedBatchSampler(std::shared_ptr<const BatchSampler> whole, int rank, int world)
      : whole_(std::move(whole)), rank_(rank), world_(world) {}
  int64_t groups() const override { return std::max<int64_t>(own(), 1); }
  int64_t batches() const override { return own() * whole_->batches() / whole_->groups(); }
  int64_t rows_per_group() const override { return whole_->rows_per_group() * world_; }
  size_t prefetch(size_t threads) const override { return whole_->prefetch(threads); }
  std::vector<LazyBatch> build(int64_t epoch, int64_t group) const override {
    return whole_->build(epoch, std::min(group * world_ + rank_, whole_->groups() - 1));
  }

 private:
  int64_t own() const { return std::max<int64_t>((whole_->groups() - rank_ + world_ - 1) / world_, 0); }

  std::shared_ptr<const BatchSampler> whole_;
  int64_t rank_, world_;
};

// Estimates the input size without reading all of it: the mean over some rows, chosen by size alone.
int64_t estimated_bytes(const ConversationSource& source) {
  constexpr int64_t kLooked = 64;
  int64_t looked = std::min(source.size(), kLooked), total = 0;
  if (looked == 0) return 0;
  Permutation order(static_cast<uint64_t>(source.size()), 0, 0);
  for (int64_t i = 0; i < looked; ++i)
    if (auto conversation = source.at(static_cast<int64_t>(order(static_cast<uint64_t>(i)))))
      for (const auto& message : conversation->messages) total += static_cast<int64_t>(message.content.size());
  return total / looked * source.size();
}

}  // namespace

std::unique_ptr<Loader> make_loader(std::shared_ptr<const ConversationSource> source, std::shared_ptr<const Encoder> encoder,
                                    LoaderConfig config, std::shared_ptr<RowReport> report) {
  if (source->size() == 0) throw UserError(ExitCode::bad_data, "the dataset has no rows");
  HONE_CHECK(config.batch_size > 0 && config.world_size > 0 && config.rank < config.world_size);
  auto threads = config.threads ? config.threads : static_cast<size_t>(usable_cores());
  auto pool = std::make_unique<ThreadPool>(threads);
  bool small = estimated_bytes(*source) <= config.index_limit_bytes;
  int rank = config.rank, world = config.world_size;
  if (config.shard_batches) config.rank = 0, config.world_size = 1;
  RowEncoder rows(std::move(source), std::move(encoder), config);
  auto sampler = small ? make_indexed_sampler(std::move(rows), config, std::move(report), *pool)
                       : make_lazy_sampler(std::move(rows), config, std::move(report));
  if (sampler->groups() == 0 || sampler->batches() == 0)
    throw UserError(ExitCode::bad_data, fmt::format("dataloader_drop_last leaves no batch of {} rows", config.batch_size),
                    "lower the batch size");
  if (config.shard_batches && world > 1) sampler = std::make_shared<DistributedBatchSampler>(std::move(sampler), rank, world);
  return std::make_unique<BatchSamplerLoader>(std::move(sampler), config, std::move(pool));
}

}  // namespace hone::data
