// From dataset arguments ("train.jsonl#500", "alpaca_en_demo", "org/name:subset") to the conversations of a run.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/data/datasets/source.h"
#include "hone/data/encode/decision_rows.h"
#include "hone/text/tokenizer.h"

namespace hone::data {

enum class MixStrategy { concat, interleave };
// `all_exhausted_once` visits every row once; `all_exhausted` repeats the shorter sets until the longest ends.
enum class StoppingStrategy { first_exhausted, all_exhausted, all_exhausted_once };

// The purpose of rows that are token ids, in ms-swift's terms: train, rlhf (a row is its chosen and its rejected conversation),
// kto (with its label).
enum class TemplateMode { train, rlhf, kto };

// Turns a hub id into a local folder; `hub` is "hf", "ms" or "" for the default one.
using DatasetResolver = std::function<std::filesystem::path(const std::string& id, const std::string& hub)>;

struct DatasetConfig {
  enum class Dialect { swift, factory };
  Dialect dialect = Dialect::swift;
  std::vector<std::string> datasets, val_datasets;
  std::vector<std::string> encoded, val_encoded;     // folders of rows that are token ids already
  TemplateMode encoded_for = TemplateMode::train;    // their purpose
  std::shared_ptr<const text::Tokenizer> tokenizer;  // that must have made them
  std::string dataset_dir = "data";                  // factory: where dataset_info.json is
  std::string media_dir;                             // factory: prefix of relative media paths; empty means dataset_dir
  double split_dataset_ratio = 0;                    // swift: share of every dataset that becomes validation, before sampling
  double val_size = 0;                               // factory: below 1 a fraction of the mix, else a count
  int64_t data_seed = 42;                            // factory: the training seed
  bool shuffle = true, val_shuffle = false;
  bool streaming = false;
  bool strict = false;                    // for callers; rows report, RowReport decides
  MixStrategy mix = MixStrategy::concat;  // swift: interleave exactly when interleave_prob is given
  std::vector<double> interleave_prob;    // empty: round-robin
  StoppingStrategy stopping = StoppingStrategy::first_exhausted;
  int64_t shuffle_buffer_size = 1000;
  std::map<std::string, std::string> columns;         // swift: source column -> canonical column
  std::vector<std::string> custom_dataset_info;       // swift: paths or inline JSON lists
  std::vector<std::string> model_name, model_author;  // [zh, en] or one for both
  int64_t max_samples = 0;                            // factory: first n rows of every dataset; 0 means all
  int64_t train_samples = -1;                         // swift: rows of the mix that are trained on; negative means all
  bool separate_validation = false;                   // every validation set has its own metrics
  bool pretraining = false;                           // stage pt: rows are plain text
  bool ranking = false;                               // factory: stage rm/dpo requires ranking entries, others forbid them
  bool prompts_only = false;                          // rollout methods: a row needs no response
  std::optional<DecisionChanges> decisions;           // rows are records of decisions, changed like this
  bool disable_auto_column_mapping = false;
  bool prefer_hf = false;           // which hub an unprefixed id means
  bool prefer_modelscope = false;   // factory: which of the two ids of an entry counts
  int64_t max_row_bytes = 8 << 20;  // a longer row is reported, not read
  DatasetResolver resolver;         // empty: local paths and the hubs' local caches only
};

struct NamedSource {
  std::string name;
  std::shared_ptr<ConversationSource> rows;
};

struct OpenedData {
  std::shared_ptr<ConversationSource> train;         // null when streaming or when everything went to validation
  std::shared_ptr<ConversationSource> validation;    // null when none
  std::vector<NamedSource> validation_sets;          // with separate_validation, what `validation` joins
  std::unique_ptr<ConversationStream> train_stream;  // only when streaming
  std::vector<std::string> train_names;              // "train.jsonl (1000 rows)", for the log
};

// Throws UserError for unknown datasets, wrong options and unreadable files; invalid rows are reported later, by at() and next().
OpenedData open_datasets(const DatasetConfig& config);

}  // namespace hone::data
