#include "hone/cli/commands/preview.h"

#include <fmt/ranges.h>

#include <cstdio>

#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/data/preview.h"

namespace hone::cli {
namespace {

using terminal::Style;

// Learned text green, masked text dim, special tokens bold; where colours are off, learned text stands in ⟦ ⟧.
std::string coloured(const std::vector<data::TextRun>& runs) {
  bool colours = terminal::colours(1), open = false;
  std::string out;
  for (const auto& run : runs) {
    if (!colours && run.learned != open) out += run.learned ? "⟦" : "⟧", open = run.learned;
    auto style = run.learned ? Style::green : Style::dim;
    out += run.special ? terminal::styled(terminal::styled(run.text, Style::bold), style) : terminal::styled(run.text, style);
  }
  return open ? out + "⟧" : out;
}

void show_row(const text::Tokenizer& tokenizer, const data::DatasetPreview::Row& row, bool ids) {
  for (size_t part = 0; part < row.samples.size(); ++part) {
    const auto& sample = row.samples[part];
    auto title = fmt::format("row {}{} ({}), {} tokens{}", row.row, row.samples.size() > 1 ? fmt::format(" part {}", part + 1) : "", sample.origin.str(),
                             sample.ids.size(), sample.grades.empty() ? "" : fmt::format(", grade {}", fmt::join(sample.grades, " ")));
    fmt::print("{}\n{}\n", terminal::styled(title, Style::bold), coloured(data::text_runs(tokenizer, sample)));
    if (ids) fmt::print("ids    {}\nlabels {}\n", Json(sample.ids).dump(), Json(sample.labels).dump());
    if (!sample.loss_scale.empty() && ids) fmt::print("weights {}\n", Json(sample.loss_scale).dump());
    fmt::print("\n");
  }
}

void show_json(const text::Tokenizer& tokenizer, const data::DatasetPreview::Row& row) {
  for (const auto& sample : row.samples) {
    Json line = {{"row", row.row}, {"origin", sample.origin.str()}, {"text", tokenizer.decode(sample.ids, false)}, {"ids", sample.ids},
                 {"labels", sample.labels}};
    if (!sample.loss_scale.empty()) line["loss_scale"] = sample.loss_scale;
    if (!sample.grades.empty()) line["grades"] = sample.grades;
    fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

void show_histogram(const data::LengthSummary& lengths) {
  int64_t tallest = 1;
  for (const auto& bar : lengths.histogram) tallest = std::max(tallest, bar.count);
  for (const auto& bar : lengths.histogram) {
    auto width = static_cast<size_t>(bar.count * 40 / tallest);
    std::string blocks;
    for (size_t i = 0; i < width; ++i) blocks += "█";
    fmt::print("  {:>7} to {:<7} {:>8}  {}\n", bar.from, bar.to - 1, bar.count, terminal::styled(blocks, Style::cyan));
  }
}

const char* fate_of_long_rows(const data::EncodeConfig& config) {
  if (config.dialect == data::Dialect::factory) return "cut turn by turn";
  switch (config.truncation) {
    case data::Truncation::drop: return "dropped";
    case data::Truncation::split: return "split";
    case data::Truncation::left: return "cut at the left";
    default: return "cut at the right";
  }
}

void show_table(const data::DatasetPreview& preview, const data::EncodeConfig& config, const data::RowReport& report) {
  auto line = [](const char* name, const data::LengthSummary& s) {
    fmt::print("{:<14} {:>8} {:>10.1f} {:>8} {:>8} {:>8} {:>12}\n", name, s.min, s.mean, s.p50, s.p95, s.max, s.total);
  };
  fmt::print("{}\n", terminal::styled(fmt::format("{:<14} {:>8} {:>10} {:>8} {:>8} {:>8} {:>12}", "tokens a row", "min", "mean", "p50", "p95", "max", "total"), Style::bold));
  line("all", preview.lengths);
  if (preview.learned.max > 0) line("learned", preview.learned);
  show_histogram(preview.lengths);
  fmt::print("rows looked at {}, usable {}, bad {}\n", preview.scanned, report.good(), report.bad());
  if (config.max_length > 0) fmt::print("longer than {} tokens: {} ({})\n", config.max_length, preview.too_long, fate_of_long_rows(config));
  if (preview.without_target) fmt::print("rows with nothing to learn: {}\n", preview.without_target);
  for (const auto& [problem, count] : report.by_kind()) fmt::print("  {:<20} {:>8}\n", data::name(problem), count);
  auto messages = report.first_messages();
  for (const auto& message : messages) fmt::print("  {}\n", terminal::styled(message, Style::yellow));
  if (auto more = report.bad() - static_cast<int64_t>(messages.size()); more > 0) fmt::print("  … and {} more\n", more);
}

}  // namespace

int preview_command(const PreviewOptions& options) {
  if (options.model.empty()) throw UserError(ExitCode::usage, "hone preview needs --model DIR");
  if (options.dataset.datasets.empty()) throw UserError(ExitCode::usage, "hone preview needs --dataset");
  if (options.format != "text" && options.format != "jsonl")
    throw UserError(ExitCode::usage, "--format " + options.format + ": expected text or jsonl");
  auto tokenizer = text::Tokenizer::load(options.model);
  auto config = options.dataset;
  config.streaming = false;
  config.shuffle = false;
  auto opened = data::open_datasets(config);
  if (!opened.train) throw UserError(ExitCode::bad_data, "the dataset has no training rows");
  data::RowReport report(options.dataset.strict);
  auto preview = data::preview(*opened.train, {options.encode, options.groups, options.rows, options.scan}, tokenizer, data::read_model_identity(options.model), report);
  for (const auto& row : preview.rows) {
    if (options.format == "jsonl") show_json(*tokenizer, row);
    else show_row(*tokenizer, row, options.ids);
  }
  if (options.format == "text") show_table(preview, options.encode, report);
  return 0;
}

}  // namespace hone::cli
