#include "hone/data/batches/batch_sampler.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
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

// A contiguous span of one row's tokens.
struct TokenSpan {
  int64_t row;
  size_t part = 0;
  size_t begin = 0, end = SIZE_MAX;
};
using SpanPack = std::vector<TokenSpan>;

// All packs are computed before the first epoch; epochs only reorder them.
class IndexedSampler : public BatchSampler {
 public:
  IndexedSampler(RowEncoder rows, const LoaderConfig& config, std::vector<SpanPack> packs)
      : rows_(std::move(rows)), config_(config), packs_(std::move(packs)), deal_(static_cast<int64_t>(packs_.size()), config) {}
  int64_t groups() const override { return deal_.batches(); }
  int64_t batches() const override { return groups(); }
  int64_t rows_per_group() const override { return config_.batch_size * config_.world_size; }
  size_t prefetch(size_t threads) const override { return static_cast<size_t>(config_.prefetch) * threads + 2; }

  std::vector<Batch> build(int64_t epoch, int64_t unit) const override {
    std::vector<SamplePack> packs;
    for (int64_t i = unit * config_.batch_size; i < std::min((unit + 1) * config_.batch_size, deal_.share()); ++i)
      packs.push_back(load(packs_[static_cast<size_t>(deal_(epoch, i))], row_before(epoch, i)));
    sample_candidates(packs, config_, epoch);
    std::vector<Batch> batches;
    batches.push_back(make_batch(packs, config_));
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

// Lengths of a row's samples; empty if the row cannot be used. Each row is reported here once.
using RowLengths = std::vector<std::vector<int64_t>>;

// Reports in file order, independent of threads and shuffling: `strict` stops at the first invalid row.
void report_in_file_order(std::vector<std::string> problems, RowReport& report) {
  std::erase(problems, "");
  std::stable_sort(problems.begin(), problems.end(), stands_before);
  for (const auto& problem : problems) report.bad_row(problem);
}

RowLengths scan(const RowEncoder& rows, RowReport& report, ThreadPool& pool) {
  RowLengths lengths(static_cast<size_t>(rows.rows()));
  std::vector<std::string> problems(lengths.size());
  std::vector<std::future<void>> jobs;
  constexpr int64_t kChunk = 64;
  for (int64_t begin = 0; begin < rows.rows(); begin += kChunk)
    jobs.push_back(pool.submit([&, begin] {
      for (int64_t row = begin; row < std::min(begin + kChunk, rows.rows()); ++row) {
        auto encoded = rows(row);
        if (!encoded) {
          problems[static_cast<size_t>(row)] = encoded.error();
          continue;
        }
        int64_t tokens = 0, trained = 0;
        for (const auto& sample : *encoded) {
          lengths[static_cast<size_t>(row)].push_back(static_cast<int64_t>(sample.ids.size()));
          tokens += static_cast<int64_t>(sample.ids.size());
          trained += std::ranges::count_if(sample.labels, [](auto label) { return label != kIgnore; });
        }
        report.good_row(tokens, trained);
      }
    }));
  // Waits for all jobs before rethrowing the first exception: jobs refer to local objects.
  for (auto& job : jobs) job.wait();
  for (auto& job : jobs) job.get();
  report_in_file_order(std::move(problems), report);
  return lengths;
}

std::vector<SpanPack> plan_blocks(const std::vector<TokenSpan>& slices, const std::vector<int64_t>& lengths, int64_t capacity,
                                  int64_t window) {
  std::vector<SpanPack> blocks;
  SpanPack open;
  int64_t used = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (i % static_cast<size_t>(window) == 0) open.clear(), used = 0;
    for (int64_t at = 0; at < lengths[i];) {
      int64_t take = std::min(capacity - used, lengths[i] - at);
      open.push_back({slices[i].row, slices[i].part, static_cast<size_t>(at), static_cast<size_t>(at + take)});
      at += take;
      used += take;
      if (used == capacity) blocks.push_back(std::exchange(open, {})), used = 0;
    }
  }
  return blocks;
}

std::vector<SpanPack> plan_packs(const RowLengths& rows, const LoaderConfig& config, int64_t capacity) {
  std::vector<TokenSpan> slices;
  std::vector<int64_t> lengths;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (config.keeps_rows_together() && !rows[row].empty()) {
      slices.push_back({static_cast<int64_t>(row), 0});
      lengths.push_back(std::accumulate(rows[row].begin(), rows[row].end(), int64_t{0}));
      continue;
    }
    for (size_t part = 0; part < rows[row].size(); ++part) {
      slices.push_back({static_cast<int64_t>(row), part});
      lengths.push_back(rows[row][part]);
    }
  }
  if (config.packing == Packing::blocks) return plan_blocks(slices, lengths, capacity, config.packing_window);
  std::vector<SpanPack> packs;
  size_t window = config.packing == Packing::none || config.packing == Packing::next_fit
                      ? std::max<size_t>(slices.size(), 1)
                      : static_cast<size_t>(config.packing_window);
  for (size_t begin = 0; begin < slices.size(); begin += window) {
    size_t end = std::min(begin + window, slices.size());
    std::vector<int64_t> part(lengths.begin() + static_cast<ptrdiff_t>(begin), lengths.begin() + static_cast<ptrdiff_t>(end));
    for (const auto& indices : pack(config.packing, part, capacity)) {
      auto& target = packs.emplace_back();
      for (size_t index : indices) target.push_back(slices[begin + index]);
    }
  }
  return packs;
}

// The texts are valid but too short in total: an incomplete block is dropped.
void require_tokens_of_a_block(const RowLengths& rows, int64_t capacity) {
  int64_t tokens = 0;
  for (const auto& parts : rows) tokens = std::accumulate(parts.begin(), parts.end(), tokens);
  if (tokens == 0) return;
  throw UserError(ExitCode::bad_data,
                  fmt::format("the dataset holds {} tokens, and packing needs {} for one block", tokens, capacity),
                  "add more text, shorten the blocks, or disable packing");
}

// A batch takes the next rows in order; a failing row is replaced by one drawn from the whole dataset.
class RowSampler : public BatchSampler {
 public:
  RowSampler(RowEncoder rows, const LoaderConfig& config, std::shared_ptr<RowReport> report)
      : rows_(std::move(rows)), config_(config), report_(std::move(report)), deal_(rows_.rows(), config) {}
  int64_t groups() const override { return deal_.batches(); }
  int64_t batches() const override { return groups(); }
  int64_t rows_per_group() const override { return config_.batch_size * config_.world_size; }
  size_t prefetch(size_t threads) const override { return static_cast<size_t>(config_.prefetch) * threads + 2; }

  std::vector<Batch> build(int64_t epoch, int64_t unit) const override {
    std::vector<SamplePack> samples;
    for (int64_t i = unit * config_.batch_size; i < std::min((unit + 1) * config_.batch_size, deal_.share()); ++i) {
      auto pack = draw(epoch, i);
      if (config_.keeps_rows_together())
        samples.push_back(std::move(pack));
      else
        for (auto& sample : pack) samples.push_back({std::move(sample)});
    }
    sample_candidates(samples, config_, epoch);
    return pack_batches(std::move(samples), config_, 0, nullptr, rows_.encoder());
  }

 private:
  SamplePack draw(int64_t epoch, int64_t index) const {
    Rng redraw(config_.seed ^ 0xD0D0ull, mix(epoch, index * config_.world_size + config_.rank));
    int64_t row = deal_(epoch, index);
    const int64_t before = deal_.before(epoch, index);
    for (int attempt = 0; attempt <= kRedraws; ++attempt) {
      auto encoded = rows_(row, before);
      // Each row has its own turn once per epoch; counting it there, in the first epoch, counts it once.
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

// A unit is a window of rows that are encoded and packed together.
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
    batches_ = config.packing == Packing::none
                   ? deal_.batches()
                   : static_cast<int64_t>(load(0, 0, false).size()) * deal_.share() / std::min(window_, deal_.share());
  }
  int64_t groups() const override { return (deal_.share() + window_ - 1) / window_; }
  int64_t batches() const override { return config_.drop_last ? batches_ : std::max<int64_t>(batches_, 1); }
  int64_t rows_per_group() const override { return -config_.batch_size * config_.world_size; }
  size_t prefetch(size_t threads) const override { return threads + 1; }
  std::vector<Batch> build(int64_t epoch, int64_t unit) const override {
    return load(epoch, unit, epoch == 0 && usable_.empty());
  }

 private:
  std::vector<Batch> load(int64_t epoch, int64_t unit, bool report) const {
    std::vector<SamplePack> samples;
    for (int64_t i = unit * window_; i < std::min((unit + 1) * window_, deal_.share()); ++i) {
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
    Rng shuffle(config_.seed ^ 0xB10Cull, mix(epoch, unit * config_.world_size + config_.rank));
    return pack_batches(std::move(samples), config_, capacity_, config_.shuffle ? &shuffle : nullptr, rows_.encoder());
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

namespace {

// The target margin of the chosen response, if the row has one (ms-swift's `margin` for reward models).
Json margin_of(const Conversation& conversation) {
  return conversation.extra.is_object() ? conversation.extra.value("margin", Json()) : Json();
}

}  // namespace

Result<SamplePack> encode_conversation(const Encoder& encoder, const Conversation& conversation, const LoaderConfig& config,
                                       int64_t row) {
  if (config.check) config.check(conversation);
  SamplePack samples;
  if (conversation.encoded) {
    samples = *conversation.encoded;
  } else if (config.groups) {
    auto group = encode_pooling_row(encoder, conversation, *config.groups);
    if (!group) return Error{group.error()};
    samples = std::move(*group);
  } else if (config.feedback) {
    auto labelled = encode_kto_row(encoder, conversation, nullptr);
    if (!labelled) return Error{labelled.error()};
    samples = std::move(*labelled);
  } else if (config.pairs) {
    auto pair = encoder.encode_pair(conversation);
    if (!pair) return Error{pair.error()};
    samples = {std::move(pair->first), std::move(pair->second)};
    const auto margin = margin_of(conversation);
    if (config.margins && !margin.is_null() && !margin.is_number())
      return row_error(RowProblem::type, conversation.origin.str(),
                       fmt::format("\"margin\" is {}; expected a number", margin.dump()));
    if (margin.is_number()) samples.front().sequence_labels = {margin.get<float>()};
  } else {
    auto parts = encoder.encode_split(conversation);
    if (!parts) return Error{parts.error()};
    samples = std::move(*parts);
  }
  for (auto& sample : samples) sample.row = row;
  return samples;
}

RowEncoder::RowEncoder(std::shared_ptr<const ConversationSource> source, std::shared_ptr<const Encoder> encoder,
                       const LoaderConfig& config)
    : source_(std::move(source)), encoder_(std::move(encoder)), config_(config) {
  if (!config.feedback || !config.feedback->with_kl_pairs || config.packing == Packing::none || config.feedback->block <= 0)
    return;
  const int64_t total = source_->size();
  const Permutation order(static_cast<uint64_t>(total), config.seed, /*epoch=*/0);
  auto row_at = [&](int64_t place) {
    return config.feedback->in_file_order ? place : static_cast<int64_t>(order(static_cast<uint64_t>(place)));
  };
  partners_.resize(static_cast<size_t>(total));
  for (int64_t place = 0; place < total; ++place)
    partners_[static_cast<size_t>(row_at(place))] = row_at(kl_partner(place, total, config.feedback->block));
}

Result<SamplePack> RowEncoder::operator()(int64_t row) const {
  if (!partners_.empty()) return with_kl_pair(row, partners_[static_cast<size_t>(row)]);
  auto conversation = source_->at(row);
  if (!conversation) return Error{conversation.error()};
  return encode_conversation(*encoder_, *conversation, config_, row);
}

Result<SamplePack> RowEncoder::operator()(int64_t row, int64_t before) const {
  if (!config_.feedback || !config_.feedback->with_kl_pairs || !partners_.empty()) return (*this)(row);
  return with_kl_pair(row, config_.feedback->in_file_order ? kl_partner(row, source_->size(), config_.feedback->block) : before);
}

Result<SamplePack> RowEncoder::with_kl_pair(int64_t row, int64_t partner_row) const {
  auto own = source_->at(row);
  if (!own) return Error{own.error()};
  auto partner = source_->at(partner_row);
  auto samples = encode_kto_row(*encoder_, *own, partner ? &*partner : nullptr);
  if (!samples) return samples;
  for (auto& sample : *samples) sample.row = row;
  return samples;
}

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
  auto lengths = scan(rows, *report, pool);
  if (config.group_by_length && config.packing == Packing::none) {
    std::vector<int64_t> usable;
    for (size_t row = 0; row < lengths.size(); ++row)
      if (!lengths[row].empty()) usable.push_back(static_cast<int64_t>(row));
    if (usable.empty()) throw UserError(ExitCode::bad_data, nothing_usable(config, *report));
    return std::make_shared<LazySampler>(std::move(rows), config, std::move(report), std::move(usable));
  }
  auto packs = plan_packs(lengths, config, capacity);
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
