#include "hone/data/batches/batch_sampler.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
#include "hone/data/batches/pack_rows.h"
#include "hone/data/batches/permutation.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

constexpr int kRedraws = 100;
constexpr int64_t kLengthWindow = 50;  // number of batches that group_by_length sorts together

// The rows of one epoch in order, distributed round-robin over the ranks; the remainder is dropped.
class DistributedSampler {
 public:
  DistributedSampler(int64_t total, const LoaderConfig& config)
      : total_(total), config_(config), share_(std::max<int64_t>(total / config.world_size, 1)) {}
  int64_t share() const { return share_; }
  int64_t batches() const { return (share_ + (config_.drop_last ? 0 : config_.batch_size - 1)) / config_.batch_size; }
  // Position in the shuffled order of this rank's `index`-th row.
  int64_t operator()(int64_t epoch, int64_t index) const { return place(epoch, slot(index)); }
  // Position of the row before that one in the global order; the first row of a block follows its last. -1 without KL pairs.
  int64_t before(int64_t epoch, int64_t index) const {
    return config_.feedback && config_.feedback->with_kl_pairs
               ? place(epoch, kl_partner(slot(index), total_, config_.feedback->block))
               : -1;
  }

 private:
  int64_t slot(int64_t index) const { return (index * config_.world_size + config_.rank) % total_; }
  int64_t place(int64_t epoch, int64_t slot) const {
    if (!config_.shuffle) return slot;
    return static_cast<int64_t>(
        Permutation(static_cast<uint64_t>(total_), config_.seed, static_cast<uint64_t>(epoch))(static_cast<uint64_t>(slot)));
  }

  int64_t total_;
  LoaderConfig config_;
  int64_t share_;
};

uint64_t mix(int64_t epoch, int64_t index) {
  return static_cast<uint64_t>(epoch) * 0x100000001B3ull + static_cast<uint64_t>(index) + 0x5851F42D4C957F2Dull;
}

std::string nothing_usable(const LoaderConfig& config, const RowReport& report) {
  return fmt::format("{} has no usable row\n{}", config.display_name, report.summary());
}

// All packs are computed before the first epoch; epochs only reorder them.
class IndexedSampler : public BatchSampler {
 public:
  IndexedSampler(RowEncoder rows, const LoaderConfig& config, std::vector<SpanPack> packs)
      : rows_(std::move(rows)), config_(config), packs_(std::move(packs)), deal_(static_cast<int64_t>(packs_.size()), config) {}
  int64_t groups() const override { return deal_.batches(); }
  int64_t batches() const override { return groups(); }
  int64_t rows_per_group() const override { return config_.batch_size * config_.world_size; }
  size_t prefetch(size_t threads) const override { return static_cast<size_t>(config_.prefetch) * threads + 2; }

  std::vector<LazyBatch> build(int64_t epoch, int64_t group) const override {
    std::vector<SamplePack> packs;
    for (int64_t i = group * config_.batch_size; i < std::min((group + 1) * config_.batch_size, deal_.share()); ++i)
      packs.push_back(load(packs_[static_cast<size_t>(deal_(epoch, i))], row_before(epoch, i)));
    sample_candidates(packs, config_, epoch);
    std::vector<LazyBatch> batches;
    batches.push_back({.made = make_batch(packs, config_), .packs = {}});
    return batches;
  }

 private:
  int64_t row_before(int64_t epoch, int64_t index) const {
    int64_t place = deal_.before(epoch, index);
    return place < 0 ? -1 : packs_[static_cast<size_t>(place)].front().row;
  }

  SamplePack load(const SpanPack& slices, int64_t before) const {
    SamplePack samples;
    for (const auto& slice : slices) {
      auto encoded = rows_(slice.row, before);
      HONE_CHECK(encoded.ok(), "a row that could be encoded no longer can: {}", encoded.error());
      if (config_.keeps_rows_together())
        std::move(encoded->begin(), encoded->end(), std::back_inserter(samples));
      else
        samples.push_back(extract_span(std::move((*encoded)[slice.part]), slice));
    }
    const auto& special = rows_.encoder().tokenizer().special();
    if (config_.packing == Packing::blocks && special.add_bos && special.bos)
      samples[0].ids[0] = samples[0].labels[0] = *special.bos;
    return samples;
  }

  static Sample extract_span(Sample sample, const TokenSpan& slice) {
    auto cut = [&](auto& values) {
      if (values.empty()) return;
      values.resize(std::min(slice.end, values.size()));
      values.erase(values.begin(), values.begin() + static_cast<ptrdiff_t>(slice.begin));
    };
    cut(sample.ids);
    cut(sample.labels);
    cut(sample.loss_scale);
    return sample;
  }

  RowEncoder rows_;
  LoaderConfig config_;
  std::vector<SpanPack> packs_;
  DistributedSampler deal_;
};

// A batch takes the next rows in order; a failing row is replaced by one drawn from the whole dataset.
class RowSampler : public BatchSampler {
 public:
  RowSampler(RowEncoder rows, const LoaderConfig& config, std::shared_ptr<RowReport> report)
      : rows_(std::move(rows)), config_(config), report_(std::move(report)), deal_(rows_.rows(), config) {}
  int64_t groups() const override { return deal_.batches(); }
  int64_t batches() const override { return groups(); }
  int64_t rows_per_group() const override { return config_.batch_size * config_.world_size; }
  size_t prefetch(size_t threads) const override { return static_cast<size_t>(config_.prefetch) * threads + 2; }

  std::vector<LazyBatch> build(int64_t epoch, int64_t group) const override {
    std::vector<SamplePack> samples;
    for (int64_t i = group * config_.batch_size; i < std::min((group + 1) * config_.batch_size, deal_.share()); ++i) {
      auto pack = draw(epoch, i);
      if (config_.keeps_rows_together())
        samples.push_back(std::move(pack));
      else
        for (auto& sample : pack) samples.push_back({std::move(sample)});
    }
    sample_candidates(samples, config_, epoch);
    auto batches = pack_batches(std::move(samples), config_, 0, nullptr, rows_.encoder());
    for (auto& batch : batches)  // one, or several of a row that is split
      if (!batch.made) batch.made = make_batch(batch.packs, config_);
    return batches;
  }

 private:
  SamplePack draw(int64_t epoch, int64_t index) const {
    Rng redraw(config_.seed ^ 0xD0D0ull, mix(epoch, index * config_.world_size + config_.rank));
    int64_t row = deal_(epoch, index);
    const int64_t before = deal_.before(epoch, index);
    for (int attempt = 0; attempt <= kRedraws; ++attempt) {
      auto encoded = rows_(row, before);
      // The sampler draws every row once per epoch; replacements are not counted, so each row is counted once.
      if (attempt == 0 && epoch == 0) encoded ? report_->good_row() : report_->bad_row(encoded.error());
      if (encoded) return std::move(*encoded);
      row = static_cast<int64_t>(redraw.below(static_cast<uint64_t>(rows_.rows())));
    }
    throw UserError(ExitCode::bad_data, nothing_usable(config_, *report_), "check the columns, the template and `max_length`");
  }

  RowEncoder rows_;
  LoaderConfig config_;
  std::shared_ptr<RowReport> report_;
  DistributedSampler deal_;
};

// A batch group is a window of rows that are encoded and packed together.
// Windows are independent: nothing carries over to the next.
class LazySampler : public BatchSampler {
 public:
  LazySampler(RowEncoder rows, const LoaderConfig& config, std::shared_ptr<RowReport> report, std::vector<int64_t> usable)
      : rows_(std::move(rows)),
        config_(config),
        report_(std::move(report)),
        usable_(std::move(usable)),
        capacity_(pack_capacity(config, rows_.encoder())),
        deal_(usable_.empty() ? rows_.rows() : static_cast<int64_t>(usable_.size()), config),
        window_(config.packing == Packing::none ? kLengthWindow * config.batch_size : config.packing_window) {
    batches_ = config.packing == Packing::none ? deal_.batches()
                                               : batches_of_first_window() * deal_.share() / std::min(window_, deal_.share());
  }
  int64_t groups() const override { return (deal_.share() + window_ - 1) / window_; }
  int64_t batches() const override { return config_.drop_last ? batches_ : std::max<int64_t>(batches_, 1); }
  int64_t rows_per_group() const override { return -config_.batch_size * config_.world_size; }
  size_t prefetch(size_t threads) const override { return threads + 1; }
  std::vector<LazyBatch> build(int64_t epoch, int64_t group) const override {
    Rng shuffle(config_.seed ^ 0xB10Cull, mix(epoch, group * config_.world_size + config_.rank));
    return pack_batches(encode_window(epoch, group, epoch == 0 && usable_.empty()), config_, capacity_,
                        config_.shuffle ? &shuffle : nullptr, rows_.encoder());
  }

 private:
  // Without decoding media, which the batches themselves do.
  int64_t batches_of_first_window() const {
    return count_batches(arrange_packs(encode_window(0, 0, false), config_, capacity_, rows_.encoder()).size(), config_);
  }

  std::vector<SamplePack> encode_window(int64_t epoch, int64_t group, bool report) const {
    std::vector<SamplePack> samples;
    for (int64_t i = group * window_; i < std::min((group + 1) * window_, deal_.share()); ++i) {
      auto row_at = [&](int64_t place) { return usable_.empty() || place < 0 ? place : usable_[static_cast<size_t>(place)]; };
      auto encoded = rows_(row_at(deal_(epoch, i)), row_at(deal_.before(epoch, i)));
      if (report) encoded ? report_->good_row() : report_->bad_row(encoded.error());
      if (!encoded) continue;
      if (config_.keeps_rows_together())
        samples.push_back(std::move(*encoded));
      else
        for (auto& sample : *encoded) samples.push_back({std::move(sample)});
    }
    sample_candidates(samples, config_, epoch);
    return samples;
  }

  RowEncoder rows_;
  LoaderConfig config_;
  std::shared_ptr<RowReport> report_;
  std::vector<int64_t> usable_;
  int64_t capacity_;
  DistributedSampler deal_;
  int64_t window_;
  int64_t batches_;
};

}  // namespace

void sample_candidates(std::vector<SamplePack>& rows, const LoaderConfig& config, int64_t epoch) {
  if (!config.groups || config.groups->kind != PoolingTask::reranking) return;
  for (auto& row : rows) {
    if (row.empty()) continue;
    Rng rng(config.seed ^ 0xCA4Dull, mix(epoch, row.front().row));
    row = sample_candidates(row, *config.groups, rng);
  }
}

std::shared_ptr<const BatchSampler> make_indexed_sampler(RowEncoder rows, const LoaderConfig& config,
                                                         std::shared_ptr<RowReport> report, ThreadPool& pool) {
  int64_t capacity = pack_capacity(config, rows.encoder());
  auto lengths = row_lengths(rows, *report, pool);
  if (config.group_by_length && config.packing == Packing::none) {
    std::vector<int64_t> usable;
    for (size_t row = 0; row < lengths.size(); ++row)
      if (!lengths[row].empty()) usable.push_back(static_cast<int64_t>(row));
    if (usable.empty()) throw UserError(ExitCode::bad_data, nothing_usable(config, *report));
    return std::make_shared<LazySampler>(std::move(rows), config, std::move(report), std::move(usable));
  }
  auto packs = pack_rows(lengths, config, capacity);
  if (packs.empty() && config.packing == Packing::blocks) require_tokens_of_a_block(lengths, capacity);
  if (packs.empty())
    throw UserError(ExitCode::bad_data, nothing_usable(config, *report), "check the columns, the template and `max_length`");
  return std::make_shared<IndexedSampler>(std::move(rows), config, std::move(packs));
}

std::shared_ptr<const BatchSampler> make_lazy_sampler(RowEncoder rows, const LoaderConfig& config,
                                                      std::shared_ptr<RowReport> report) {
  bool windows = config.packing != Packing::none || config.group_by_length;
  if (windows) return std::make_shared<LazySampler>(std::move(rows), config, std::move(report), std::vector<int64_t>{});
  return std::make_shared<RowSampler>(std::move(rows), config, std::move(report));
}

}  // namespace hone::data
