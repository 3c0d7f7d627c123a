// A dataset as the trainer sees it: rows with their trained parts, lengths, and the handling of long rows.
#pragma once
#include <optional>

#include "hone/data/batches/make_loader.h"
#include "hone/data/datasets/source.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/row_report.h"

namespace hone::data {

struct LengthSummary {
  int64_t count = 0, min = 0, max = 0, p50 = 0, p95 = 0, total = 0;
  double mean = 0;
  struct Bar {
    int64_t from, to, count;  // lengths in [from, to)
  };
  std::vector<Bar> histogram;
};
LengthSummary summarize(std::vector<int64_t> lengths, size_t bars = 10);

// A span of a sample's text: trained or masked, ordinary or a special token.
struct TextSpan {
  std::string text;
  bool is_trained, special;
};
std::vector<TextSpan> text_runs(const text::Tokenizer& tokenizer, const Sample& sample);

struct DatasetPreview {
  struct Row {
    int64_t row;
    std::vector<Sample> samples;
    Json extra;  // columns that no message holds: what rewards are computed from
  };
  std::vector<Row> rows;              // the first usable ones
  LengthSummary lengths, is_trained;  // tokens per row before truncation, and how many of them are trained
  int64_t scanned = 0, too_long = 0, without_target = 0;
};

struct PreviewConfig {
  LoaderConfig loader;      // how the run makes samples of a row: pairs, feedback, groups
  bool prompts = false;     // rows are prompts that the model completes itself …
  int64_t most_tokens = 0;  // … and the most tokens of such a batch
  int64_t shown = 3, scan = 10'000;
};

// Scans the first `scan` rows on all cores and keeps the first `shown` usable ones, encoded by the run's own encoder. Invalid
// rows, including those that the run would drop for their length, go to `report`.
DatasetPreview preview(const ConversationSource& source, const PreviewConfig& config, const EncodeConfig& encode,
                       std::shared_ptr<const text::Tokenizer> tokenizer, const ModelIdentity& model, RowReport& report);

}  // namespace hone::data
