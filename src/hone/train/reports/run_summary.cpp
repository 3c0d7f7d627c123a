#include "hone/train/reports/run_summary.h"

#include <algorithm>
#include <cctype>

#include "hone/base/terminal.h"

namespace hone::train {
namespace {

std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

// "model.layers.12.mlp" -> "model.layers.*.mlp"
std::string fold_layers(const std::string& name) {
  std::string folded;
  for (size_t i = 0; i < name.size();) {
    bool number = std::isdigit(static_cast<unsigned char>(name[i])) && (i == 0 || name[i - 1] == '.');
    size_t end = i;
    while (number && end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
    if (number && (end == name.size() || name[end] == '.')) {
      folded += '*';
      i = end;
    } else {
      folded += name[i++];
    }
  }
  return folded;
}

struct Row {
  std::string name, shape;
  int64_t tensors = 0, elements = 0;
};

std::vector<Row> fold(const tuner::Tuned& tuned) {
  std::vector<Row> rows;
  for (const auto& [name, tensor] : tuned.trainable) {
    std::string folded = fold_layers(name), shape = fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
    auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == folded && row.shape == shape; });
    if (same == rows.end()) same = rows.insert(rows.end(), Row{folded, shape});
    ++same->tensors;
    same->elements += tensor.numel();
  }
  return rows;
}

// The end of a parameter's name is more informative than its start.
std::string end_of(const std::string& name, size_t cells) {
  return name.size() <= cells ? name : "…" + name.substr(name.size() - (cells - 1));
}

std::string entry(std::string_view label, const std::string& value) { return fmt::format("  {:<18} {}\n", label, value); }

}  // namespace

std::string trainable_table(const tuner::Tuned& tuned) {
  auto rows = fold(tuned);
  size_t name_width = 0, shape_width = 0;
  for (const auto& row : rows) {
    name_width = std::max(name_width, row.name.size());
    shape_width = std::max(shape_width, row.shape.size());
  }
  if (terminal::has_width(2)) {
    size_t rest = shape_width + 26, columns = static_cast<size_t>(terminal::columns());
    name_width = std::min(name_width, std::max<size_t>(columns > rest ? columns - rest : 0, 16));
  }
  std::string table = tuned.summary() + "\n";
  for (const auto& row : rows)
    table += fmt::format("  {:<{}}  {:<{}}  x{:<4} {:>14}\n", end_of(row.name, name_width), name_width, row.shape, shape_width,
                         row.tensors, with_commas(row.elements));
  return table;
}

std::string running_block(const TrainerConfig& config, const StepCounts& counts, const RunFacts& facts,
                          const tuner::Tuned& tuned) {
  int64_t total_batch = config.micro_batch_size * counts.accumulation * facts.copies;
  int64_t epochs =
      counts.updates_per_epoch > 0 ? (counts.max_steps + counts.updates_per_epoch - 1) / counts.updates_per_epoch : 1;
  auto block = fmt::format(
      "***** Running training *****\n"
      "  Num examples = {}\n"
      "  Num Epochs = {}\n"
      "  Instantaneous batch size per device = {}\n"
      "  Total train batch size (w. parallel, distributed & accumulation) = {}\n"
      "  Gradient Accumulation steps = {}\n"
      "  Total optimization steps = {}\n"
      "  Number of trainable parameters = {}\n",
      facts.examples < 0 ? "unknown (streaming)" : with_commas(facts.examples), epochs, config.micro_batch_size, total_batch,
      counts.accumulation, with_commas(counts.max_steps), with_commas(tuned.trainable_count));
  block += fmt::format("  Model = {}, {} of {} parameters train ({})\n", facts.model, with_commas(tuned.trainable_count),
                       with_commas(tuned.total_count), facts.tuner);
  block += fmt::format("  Device = {}{}, weights in {}\n",
                       facts.processes > 1 ? fmt::format("{} processes, the first on ", facts.processes) : "", facts.device,
                       facts.dtype);
  block +=
      fmt::format("  Template = {}, max_length = {}\n", facts.template_name.empty() ? "the model's own" : facts.template_name,
                  facts.max_length > 0 ? std::to_string(facts.max_length) : "none");
  if (facts.tokens > 0)
    block += fmt::format("  Tokens = {} in an epoch{}, {} in the longest row\n", with_commas(facts.tokens),
                         facts.trained_tokens > 0 ? fmt::format(", {} of them trained", with_commas(facts.trained_tokens)) : "",
                         with_commas(facts.longest_row));
  return block;
}

std::string final_summary(const RunResult& finished, const NextCommand& next_command) {
  const auto& state = finished.state;
  static constexpr const char* kHeadlines[] = {"Training finished", "Training stopped early: the metric no longer improves",
                                               "Stopped by a signal", "Stopped by Ctrl-C"};
  std::string headline = kHeadlines[static_cast<int>(finished.outcome)];
  if (!finished.kept())
    headline += "; the last step was not saved";
  else if (!finished.complete())
    headline += state.global_step > 0 ? "; saved" : " before the first step";
  std::string text = terminal::styled(headline, terminal::Style::bold, 1) + "\n";
  text += entry("steps", fmt::format("{} of {} (epoch {:.2f})", state.global_step, state.max_steps, state.epoch));
  bool final_weights = finished.layout == Layout::factory && finished.complete();
  std::string weights = final_weights ? finished.run.root.string() : state.last_model_checkpoint;
  std::string recommended = weights;
  bool best_is_wanted = finished.outcome == Outcome::early_stopped || (finished.best_loaded && finished.complete());
  bool best_is_final = final_weights && finished.best_loaded;
  if (best_is_wanted && !best_is_final && !state.best_model_checkpoint.empty()) recommended = state.best_model_checkpoint;
  if (final_weights) text += entry("model", weights);
  if (!state.last_model_checkpoint.empty()) text += entry("last checkpoint", state.last_model_checkpoint);
  if (!state.best_model_checkpoint.empty())
    text +=
        entry("best checkpoint", fmt::format("{} (metric {:.6g})", state.best_model_checkpoint, state.best_metric.value_or(0)));
  text += entry("log", finished.run.log_file(finished.layout).string());
  if (!finished.plots.empty()) text += entry("plots", finished.plots.front().parent_path().string());
  if (state.skipped_steps > 0) text += entry("skipped steps", fmt::format("{} with non-finite numbers", state.skipped_steps));
  if (state.failed_saves > 0) text += entry("failed saves", std::to_string(state.failed_saves));
  if (!recommended.empty() && next_command) text += entry("next", next_command(finished, recommended));
  return text;
}

}  // namespace hone::train
