// Shows rows as a training command sees them, and a table of lengths and problems. The command is resolved as for a real run, so
// the preview shows exactly the rows it would train on.
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>

#include "hone/base/progress.h"
#include "hone/base/strings/counted.h"
#include "hone/base/terminal.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/commands/inspect/thumbnail.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/training/preference_config.h"
#include "hone/cli/configs/training/training_config.h"
#include "hone/cli/dialect_flags.h"
#include "hone/cli/parsing/command_line.h"
#include "hone/data/encode/objects.h"
#include "hone/data/preview.h"
#include "hone/media/decode_image.h"
#include "hone/text/templates/agent_format.h"
#include "hone/train/run_loaders.h"

namespace hone::cli {
namespace {

using terminal::Style;
using Sample = data::Sample;
using ShownRow = data::DatasetPreview::Row;

// Learned text green, masked text dim, special tokens bold; without colors, learned text is enclosed in ⟦ ⟧.
std::string colored(const std::vector<data::TextSpan>& runs) {
  bool colours = terminal::has_colors(1), open = false;
  std::string out;
  for (const auto& run : runs) {
    if (!colours && run.is_trained != open) out += run.is_trained ? "⟦" : "⟧", open = run.is_trained;
    auto style = run.is_trained ? Style::green : Style::dim;
    out += run.special ? terminal::styled(terminal::styled(run.text, Style::bold), style) : terminal::styled(run.text, style);
  }
  return open ? out + "⟧" : out;
}

// What a sample is within its row; "" if the row has a single sample.
std::string part_name(const train::TrainingJob& job, const ShownRow& row, size_t part) {
  if (job.reinforcement) return "prompt";
  if (job.loader.pairs) return part == 0 ? "chosen" : "rejected";
  if (job.loader.feedback)
    return row.samples[part].sequence_labels.empty() || row.samples[part].sequence_labels.front() > 0 ? "good" : "bad";
  return row.samples.size() > 1 ? fmt::format("part {}", part + 1) : "";
}

bool has_grades(const train::TrainingJob& job, const Sample& sample) {
  return !job.loader.feedback && !sample.sequence_labels.empty();
}

// Only on terminals that can show images. Decoding errors have already been reported.
void show_thumbnail(const data::Picture& picture) {
  static const auto kind = terminal_pictures();
  if (kind == TerminalPictures::none || picture.is_video()) return;
  auto medium = media::Medium::open(picture.source, picture.config->sources);
  if (!medium) return;
  if (auto image = media::decode_image(medium->bytes())) fmt::print("{}", thumbnail(*image, medium->bytes(), kind, 40, 12));
}

struct ShownBoxes {
  std::vector<data::Picture> images;
  std::vector<data::ScaledBox> boxes;
};

// Bounding boxes in the coordinates that the model reads.
ShownBoxes boxes_of(const ShownRow& row, const Sample& sample) {
  ShownBoxes shown;
  for (const auto& picture : sample.pictures)
    if (!picture.is_video() && !picture.geometry.is_crop()) shown.images.push_back(picture);
  if (shown.images.empty()) return shown;
  try {
    shown.boxes = data::scaled_boxes(row.extra, shown.images, shown.images[0].config->boxes);
  } catch (const text::FormatError&) {
    return {};  // one sample of a split row does not have all of its images
  }
  return shown;
}

void show_row(const train::TrainingJob& job, const text::Tokenizer& tokenizer, const ShownRow& row, bool ids) {
  for (size_t part = 0; part < row.samples.size(); ++part) {
    const auto& sample = row.samples[part];
    const auto name = part_name(job, row, part);
    auto title = fmt::format("row {}{}{} ({}), {}{}", row.row, name.empty() ? "" : " ", name, sample.origin.str(),
                             counted(sample.ids.size(), "token"),
                             has_grades(job, sample) ? fmt::format(", grade {}", fmt::join(sample.sequence_labels, " ")) : "");
    fmt::print("{}\n{}\n", terminal::styled(title, Style::bold), colored(data::text_runs(tokenizer, sample)));
    for (const auto& picture : sample.pictures) {
      fmt::print("{}\n", terminal::styled(data::describe(picture), Style::dim));
      show_thumbnail(picture);
    }
    const auto shown = boxes_of(row, sample);
    for (const auto& box : shown.boxes)
      fmt::print("{}\n", terminal::styled(data::describe(box, shown.images, shown.images[0].config->boxes), Style::dim));
    for (const auto& sound : sample.sounds) fmt::print("{}\n", terminal::styled(data::describe(sound), Style::dim));
    if (ids) fmt::print("ids    {}\nlabels {}\n", Json(sample.ids).dump(), Json(sample.labels).dump());
    if (!sample.loss_scale.empty() && ids) fmt::print("weights {}\n", Json(sample.loss_scale).dump());
    if (job.reinforcement && row.extra.is_object())
      fmt::print("{}\n",
                 terminal::styled(
                     "rewards see " + terminal::truncate(row.extra.dump(-1, ' ', false, Json::error_handler_t::replace), 200),
                     Style::dim));
    fmt::print("\n");
  }
}

Json shown_picture(const data::Picture& picture) {
  const auto& geometry = picture.geometry;
  const auto seen = picture.input_size();
  return {{"source", media::describe_source(picture.source)},
          {"size", {geometry.source.width, geometry.source.height}},
          {"seen", {seen.width, seen.height}},
          {"tiles", geometry.frames},
          {"tokens", geometry.tokens}};
}

void show_json(const train::TrainingJob& job, const text::Tokenizer& tokenizer, const ShownRow& row) {
  for (size_t part = 0; part < row.samples.size(); ++part) {
    const auto& sample = row.samples[part];
    Json line = {{"row", row.row},
                 {"origin", sample.origin.str()},
                 {"text", tokenizer.decode(sample.ids, false)},
                 {"ids", sample.ids},
                 {"labels", sample.labels}};
    if (auto name = part_name(job, row, part); !name.empty()) line["part"] = name;
    if (!sample.loss_scale.empty()) line["loss_scale"] = sample.loss_scale;
    for (const auto& picture : sample.pictures) line["images"].push_back(shown_picture(picture));
    for (const auto& box : boxes_of(row, sample).boxes)
      line["boxes"].push_back({{"ref", box.name}, {"image", box.image}, {"given", box.given}, {"seen", box.scaled}});
    for (const auto& sound : sample.sounds)
      line["audios"].push_back({{"source", media::describe_source(sound.source)},
                                {"seconds", sound.header.seconds()},
                                {"rate", sound.header.rate},
                                {"frames", sound.frames},
                                {"tokens", sound.tokens}});
    if (has_grades(job, sample)) line["grades"] = sample.sequence_labels;
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
  if (config.dialect == data::Dialect::factory) return "truncated turn by turn";
  switch (config.truncation) {
    case data::Truncation::drop:
      return "dropped";
    case data::Truncation::split:
      return "split";
    case data::Truncation::left:
      return "truncated on the left";
    default:
      return "truncated on the right";
  }
}

void show_table(const data::DatasetPreview& preview, const train::TrainingJob& job, const data::RowReport& report,
                const Options& command) {
  auto line = [](const char* name, const data::LengthSummary& s) {
    fmt::print("{:<14} {:>8} {:>10.1f} {:>8} {:>8} {:>8} {:>12}\n", name, s.min, s.mean, s.p50, s.p95, s.max, s.total);
  };
  fmt::print("{}\n", terminal::styled(fmt::format("{:<14} {:>8} {:>10} {:>8} {:>8} {:>8} {:>12}", "tokens a row", "min", "mean",
                                                  "p50", "p95", "max", "total"),
                                      Style::bold));
  line("all", preview.lengths);
  if (preview.is_trained.max > 0) line("learned", preview.is_trained);
  show_histogram(preview.lengths);
  fmt::print("rows scanned {}, usable {}, invalid {}\n", preview.scanned, report.good(), report.bad());
  const auto limit = job.encode.max_length;
  if (limit > 0)
    fmt::print("longer than max_length, {} tokens{}: {} ({})\n", limit, job.loader.pairs ? " for each half" : "",
               preview.too_long, fate_of_long_rows(job.encode));
  if (preview.without_target) fmt::print("rows with nothing to learn: {}\n", preview.without_target);
  if (job.loader.feedback && job.loader.feedback->with_kl_pairs)
    fmt::print("each prompt trains once more with another row's answer, from which kto estimates the divergence\n");
  for (const auto& [problem, count] : report.by_kind()) fmt::print("  {:<20} {:>8}\n", data::name(problem), count);
  for (const auto& message : report.messages())
    fmt::print("  {}\n", terminal::styled(in_dialect(message, command.front_end(), command.verb()), Style::yellow));
  if (auto more = report.unlisted(); more > 0) fmt::print("  … and {} more\n", more);
}

// Skips checks of settings that do not affect the rows.
void complete(Options& options) {
  const DistillationArguments teacher(options);
  const RewardArguments rewards(options);
  const auto output_dir = OutputArguments(options).output_dir;
  auto set = [&](const AnyArg& option, Json value) {
    options.set(option.name(), std::move(value), Source::automatic, "preview");
  };
  if (!output_dir.has_value()) set(output_dir, "output");
  set(TrainingArguments(options).do_train, true);
  const auto method = training_method(options);
  if (method == "gkd") {
    set(teacher.teacher_model_server, Json()), set(teacher.teacher_logps, Json()), set(teacher.gkd_logits_topk, Json());
    set(teacher.teacher_model, *ModelArguments(options).model);
    set(teacher.teacher_adapters, Json::array());
  }
  if (method != "grpo" && method != "ppo") return;
  if (uses_factory_dialect(options)) {
    set(rewards.reward_model_type, "api");
    set(rewards.reward_model, Json::array({"http://127.0.0.1:9/score"}));
    return;
  }
  set(rewards.reward_funcs, Json::array({"format"}));
  set(rewards.reward_model, Json::array());
  set(rewards.reward_weights, Json());
  set(PpoArguments(options).value_model, "policy");
}

// In file order, unless rows are sampled: then the rows that the run samples.
void keep_file_order(data::DatasetConfig& config) {
  bool draws =
      config.split_dataset_ratio > 0 || config.val_size > 0 || config.train_samples >= 0 || !config.interleave_prob.empty();
  for (const auto& word : config.datasets) draws |= word.find('#') != word.npos;
  if (!draws) config.shuffle = false;
  config.streaming = false;
}

data::DatasetPreview preview_dataset(const train::TrainingJob& job, const Options& options,
                                     const std::shared_ptr<const text::Tokenizer>& tokenizer, data::RowReport& report) {
  const ToolArguments args(options);
  auto datasets = job.datasets;
  keep_file_order(datasets);
  datasets.tokenizer = tokenizer;
  auto opened = data::open_datasets(datasets);
  if (!opened.train) throw UserError(ExitCode::bad_data, "the dataset has no training rows");
  data::PreviewConfig config{.loader = job.loader, .shown = *args.rows, .scan = *args.scan};
  if (job.reinforcement) config.prompts = true, config.most_tokens = train::longest_useful_prompt(job);
  return data::preview(*opened.train, config, job.encode, tokenizer, data::read_model_identity(job.model_folder), report);
}

}  // namespace

int preview_command(const Options& options) {
  const ToolArguments args(options);
  auto system = system_access();
  auto line = read_command_line(options.positional(), system, options.front_end());
  if (!(line.invocation.command->verb & kTraining))
    throw UserError(ExitCode::usage,
                    fmt::format("{} does not train; preview shows the rows of sft, pt, rlhf and train", line.invocation.typed));
  for (const auto& [name, value] : line.environment) ::setenv(name.c_str(), value.c_str(), 1);
  auto command = resolve(parse_invocation(line.invocation, system));
  if (!command) return 0;
  if (!command->has("dataset") && !command->has("cached_dataset"))
    throw UserError(ExitCode::usage, "hone preview needs " + command->display_name("dataset"));
  complete(*command);
  auto job = training_job(*command);
  std::shared_ptr<const text::Tokenizer> tokenizer = text::load_tokenizer(job.model_folder, job.new_tokens);
  data::RowReport report(job.datasets.strict);
  auto preview = preview_dataset(job, options, tokenizer, report);
  const bool for_people = *args.format == "text";
  for (const auto& row : preview.rows) for_people ? show_row(job, *tokenizer, row, *args.ids) : show_json(job, *tokenizer, row);
  if (for_people) show_table(preview, job, report, *command);
  if (report.good() > 0) return 0;
  std::fflush(stdout);
  throw UserError(ExitCode::bad_data,
                  for_people ? "no row of the dataset can be used" : "no row of the dataset can be used\n" + report.summary());
}

}  // namespace hone::cli
