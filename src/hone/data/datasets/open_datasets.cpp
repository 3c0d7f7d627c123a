#include "hone/data/datasets/open_datasets.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "hone/base/log.h"
#include "hone/base/strings/counted.h"
#include "hone/base/strings/lower_case.h"
#include "hone/data/datasets/cached_dataset.h"
#include "hone/data/datasets/locate_dataset.h"
#include "hone/data/datasets/self_cognition.h"
#include "hone/data/datasets/sources.h"
#include "hone/data/formats/column_hints.h"
#include "hone/data/formats/columns.h"

namespace hone::data {
namespace {

struct TrainAndValidation {
  std::vector<SourcePtr> train, validation;
};

class Opener {
 public:
  explicit Opener(const DatasetConfig& config)
      : config_(config),
        locator_(config),
        random_(static_cast<uint32_t>(config.data_seed)),
        factory_(config.dialect == DatasetConfig::Dialect::factory) {}

  OpenedData open() {
    OpenedData data;
    if (config_.streaming)
      open_streams(data);
    else if (factory_)
      open_factory(data);
    else
      open_swift(data);
    warn_of_absent_columns();
    data.train = with_encoded(std::move(data.train), config_.encoded, config_.shuffle && !factory_);
    data.validation = with_encoded(std::move(data.validation), config_.val_encoded, false);
    return data;
  }

 private:
  void note_columns(const std::vector<std::string>& columns) const {
    for (const auto& column : columns)
      if (std::ranges::find(seen_columns_, column) == seen_columns_.end()) seen_columns_.push_back(column);
  }

  // Datasets may differ, so a renamed column need not exist in all of them; one that exists in none is an error.
  void warn_of_absent_columns() const {
    if (seen_columns_.empty()) return;
    for (const auto& [column, target] : config_.columns) {
      const bool present = std::ranges::any_of(
          seen_columns_, [&, name = lower_case(column)](const auto& seen) { return lower_case(seen) == name; });
      if (present) continue;
      const auto near = nearest_name(column, seen_columns_);
      log::warning(
          "`columns`: no row has a column \"{}\"; {}", column,
          near.empty() ? fmt::format("there are {}", column_list(seen_columns_)) : fmt::format("did you mean \"{}\"", near));
    }
  }

  // Appends rows that were encoded earlier.
  SourcePtr with_encoded(SourcePtr rows, const std::vector<std::string>& folders, bool shuffle) {
    if (folders.empty()) return rows;
    if (!config_.tokenizer)
      throw UserError(ExitCode::usage, fmt::format("{} contains tokens; expected text", folders.front()),
                      "name the rows themselves");
    std::vector<SourcePtr> all;
    if (rows) all.push_back(std::move(rows));
    for (const auto& folder : folders) all.push_back(open_cached_dataset(folder, *config_.tokenizer, config_.encoded_for));
    auto joined = concat_sources(std::move(all));
    if (!shuffle) return joined;
    return select_source(
        joined,
        NumpyGenerator(static_cast<uint64_t>(random_.draw_seed())).permutation(checked_size(*joined, "the encoded rows")));
  }

  ReaderOptions reader_options() const { return {config_.max_row_bytes}; }

  static uint32_t checked_size(const ConversationSource& source, const std::string& name) {
    if (source.size() == 0) throw UserError(ExitCode::bad_data, name + ": no rows", "expected at least one row");
    if (source.size() >= std::numeric_limits<uint32_t>::max())
      throw UserError(ExitCode::bad_data, fmt::format("{}: {} rows are too many to index", name, source.size()),
                      "use `streaming` true");
    return static_cast<uint32_t>(source.size());
  }

  SourcePtr open_part(const DatasetPart& part, const std::string& name, int64_t seed) const {
    if (part.files.empty())
      return format_source(open_self_cognition(config_.model_name, config_.model_author, part.variant),
                           part.format({"query", "response"}), name);
    std::vector<std::unique_ptr<RowReader>> readers;
    for (const auto& file : part.files) readers.push_back(open_rows(file, reader_options()));
    if (config_.decisions)
      return format_source(open_decisions(*concat_rows(std::move(readers)), *config_.decisions, static_cast<uint64_t>(seed)),
                           part.format({"messages"}), name);
    auto columns = sniff_columns(*open_row_stream(part.files.front(), reader_options()));
    note_columns(columns);
    return format_source(concat_rows(std::move(readers)), part.format(columns), name);
  }

  SourcePtr open_source(const LocatedDataset& dataset, int64_t seed = 0) const {
    std::vector<SourcePtr> parts;
    for (const auto& part : dataset.parts) parts.push_back(open_part(part, dataset.name, seed));
    return concat_sources(std::move(parts));
  }

  // ms-swift: each dataset is split, then sampled; the order of draws from the shared generator affects the result.
  TrainAndValidation load_swift(const std::vector<std::string>& words, double ratio, bool shuffle, OpenedData& data) {
    TrainAndValidation loaded;
    for (const auto& word : words) {
      auto dataset = locator_.locate(word);
      auto source = open_source(dataset, random_.draw_seed());  // drawn for every dataset, even if not needed
      auto rows = checked_size(*source, dataset.name);
      auto split = split_and_sample(rows, dataset.sample, ratio, shuffle, random_, dataset.name);
      if (split.has_train) {
        loaded.train.push_back(select_source(source, std::move(split.train)));
        data.train_names.push_back(fmt::format("{} ({})", dataset.name, counted(loaded.train.back()->size(), "row")));
      }
      if (split.has_validation) loaded.validation.push_back(select_source(source, std::move(split.validation)));
    }
    return loaded;
  }

  static SourcePtr first_rows(SourcePtr source, int64_t count) {
    if (count >= source->size()) return source;
    NumpyRandomState unused(0);
    return select_source(source, sample_rows(static_cast<uint32_t>(source->size()), count, false, unused));
  }

  SourcePtr mix(std::vector<SourcePtr> sources, int64_t seed) const {
    bool interleave = config_.mix == MixStrategy::interleave || (!factory_ && !config_.interleave_prob.empty());
    if (!interleave || sources.size() < 2) return concat_sources(std::move(sources));
    std::vector<uint32_t> lengths;
    for (const auto& source : sources) lengths.push_back(static_cast<uint32_t>(source->size()));
    auto order = interleave_rows(lengths, config_.interleave_prob, seed, config_.stopping);
    return select_source(concat_sources(std::move(sources)), std::move(order));
  }

  // Draws two seeds even if one side is empty, as ms-swift does.
  std::pair<SourcePtr, SourcePtr> mix_and_shuffle(TrainAndValidation loaded, bool shuffle) {
    bool interleave = !config_.interleave_prob.empty();
    auto train = mix(std::move(loaded.train), interleave ? random_.draw_seed() : 0);
    auto validation = mix(std::move(loaded.validation), interleave ? random_.draw_seed() : 0);
    for (auto* source : {&train, &validation})
      if (shuffle && *source) {
        auto seed = static_cast<uint64_t>(random_.draw_seed());
        auto rows = checked_size(**source, "the mix of datasets");
        *source = select_source(*source, NumpyGenerator(seed).permutation(rows));
      }
    return {train, validation};
  }

  void open_swift(OpenedData& data) {
    double ratio = config_.val_datasets.empty() ? config_.split_dataset_ratio : 0;
    if (!(ratio >= 0 && ratio <= 1))
      throw UserError(ExitCode::usage, fmt::format("`split_dataset_ratio` {}", ratio), "expected a number from 0 to 1");
    if (!config_.datasets.empty())
      std::tie(data.train, data.validation) =
          mix_and_shuffle(load_swift(config_.datasets, ratio, config_.shuffle, data), config_.shuffle);
    if (config_.train_samples >= 0 && data.train) data.train = first_rows(data.train, config_.train_samples);
    if (!config_.val_datasets.empty()) {
      OpenedData ignored;
      random_ = NumpyRandomState(static_cast<uint32_t>(config_.data_seed));
      data.validation =
          mix_and_shuffle(load_swift(config_.val_datasets, 1, config_.val_shuffle, ignored), config_.val_shuffle).second;
    }
  }

  SourcePtr load_factory(const std::vector<std::string>& words, std::vector<std::string>* names) {
    std::vector<SourcePtr> sources;
    for (const auto& word : words) {
      auto dataset = locator_.locate(word);
      auto source = open_source(dataset);
      auto rows = checked_size(*source, dataset.name);
      if (auto wanted = dataset.num_samples ? dataset.num_samples : dataset.sample)
        source = select_source(source, num_samples(rows, *wanted, random_));
      if (config_.max_samples > 0) source = first_rows(std::move(source), config_.max_samples);
      if (names) names->push_back(fmt::format("{} ({})", dataset.name, counted(source->size(), "row")));
      sources.push_back(std::move(source));
    }
    return mix(std::move(sources), config_.data_seed);
  }

  void open_factory(OpenedData& data) {
    if (config_.val_size > 1e-6 && !config_.val_datasets.empty())
      throw UserError(ExitCode::usage, "val_size together with eval_dataset", "give one of the two");
    if (!config_.datasets.empty()) data.train = load_factory(config_.datasets, &data.train_names);
    if (config_.separate_validation)
      for (const auto& word : config_.val_datasets) data.validation_sets.push_back({word, load_factory({word}, nullptr)});
    if (!config_.val_datasets.empty()) data.validation = load_factory(config_.val_datasets, nullptr);
    if (config_.val_size <= 1e-6 || !data.train) return;
    auto split = split_by_size(checked_size(*data.train, "the mix of datasets"), config_.val_size, config_.data_seed);
    data.validation = select_source(data.train, std::move(split.validation));
    data.train = select_source(data.train, std::move(split.train));
  }

  StreamPtr open_stream(const LocatedDataset& dataset) const {
    std::vector<StreamPtr> parts;
    for (const auto& part : dataset.parts) {
      if (part.files.empty()) {
        auto rows = stream_rows(open_self_cognition(config_.model_name, config_.model_author, part.variant));
        parts.push_back(format_stream(std::move(rows), part.format({"query", "response"}), dataset.name));
        continue;
      }
      std::vector<std::unique_ptr<RowStream>> files;
      for (const auto& file : part.files) files.push_back(open_row_stream(file, reader_options()));
      auto columns = sniff_columns(*files.front());
      note_columns(columns);
      parts.push_back(format_stream(concat_streams(std::move(files)), part.format(columns), dataset.name));
    }
    auto stream = concat_streams(std::move(parts));
    return dataset.sample ? limit_stream(std::move(stream), *dataset.sample) : std::move(stream);
  }

  void open_streams(OpenedData& data) {
    if (config_.decisions)
      throw UserError(ExitCode::usage, "records of decisions become several rows each, one after another",
                      "leave `streaming` out");
    if (!factory_ && config_.split_dataset_ratio > 0 && config_.val_datasets.empty())
      log::warning("`split_dataset_ratio` is ignored with `streaming` true: a stream has no length to split; give `val_dataset`");
    std::vector<StreamPtr> streams;
    for (const auto& word : config_.datasets) {
      auto dataset = locator_.locate(word);
      streams.push_back(open_stream(dataset));
      data.train_names.push_back(dataset.name + " (streamed)");
    }
    if (streams.empty()) throw UserError(ExitCode::usage, "no dataset to stream", "give `dataset`");
    bool interleave = config_.mix == MixStrategy::interleave || !config_.interleave_prob.empty();
    auto seed = static_cast<uint64_t>(factory_ ? config_.data_seed : interleave ? random_.draw_seed() : 0);
    auto stream = interleave && streams.size() > 1
                      ? interleave_streams(std::move(streams), config_.interleave_prob, seed, config_.stopping)
                      : concat_streams(std::move(streams));
    if (factory_ || config_.shuffle) {
      auto shuffle_seed = static_cast<uint64_t>(factory_ ? config_.data_seed : random_.draw_seed());
      stream = shuffle_stream(std::move(stream), config_.shuffle_buffer_size, shuffle_seed);
    }
    if (factory_ && config_.val_size > 0 && config_.val_size < 1)
      throw UserError(ExitCode::usage,
                      fmt::format("val_size {} with streaming: a stream has no length to take a share of", config_.val_size),
                      "give a number of rows, for example val_size: 100");
    auto held_out = static_cast<int64_t>(factory_ ? config_.val_size : 0);
    if (held_out > 0) data.validation = hold_source(*stream, held_out);
    data.train_stream = std::move(stream);
    DatasetConfig finite = config_;
    finite.streaming = false;
    finite.datasets.clear();
    if (config_.val_datasets.empty()) return;
    auto held = Opener(finite).open();
    data.validation = std::move(held.validation);
    data.validation_sets = std::move(held.validation_sets);
  }

  const DatasetConfig& config_;
  DatasetLocator locator_;
  mutable std::vector<std::string> seen_columns_;  // columns of the files' first rows
  NumpyRandomState random_;
  bool factory_;
};

}  // namespace

OpenedData open_datasets(const DatasetConfig& config) { return Opener(config).open(); }

}  // namespace hone::data
