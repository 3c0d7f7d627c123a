#include "hone/train/reports/run_log.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/device/memory.h"

namespace hone::train {
namespace {

constexpr double kGibibyte = 1 << 30;

void print_line(std::string_view line) {
  ProgressBar::erase_active();
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
  ProgressBar::redraw_active();
}

double round_to(double value, int digits) {
  double scale = std::pow(10.0, digits);
  return std::isfinite(value) ? std::round(value * scale) / scale : value;
}

// "1h 2m 3s" as ms-swift writes it.
std::string spoken_duration(double seconds) {
  auto total = static_cast<int64_t>(std::llround(seconds));
  std::string text;
  if (total >= 86400) text += fmt::format("{}d ", total / 86400);
  if (total >= 3600) text += fmt::format("{}h ", total / 3600 % 24);
  if (total >= 60) text += fmt::format("{}m ", total / 60 % 60);
  return text + fmt::format("{}s", total % 60);
}

// "1 day, 0:01:02" as Python prints a timedelta.
std::string clock_duration(double seconds) {
  auto total = static_cast<int64_t>(seconds);
  int64_t days = total / 86400;
  std::string text = days == 0 ? "" : days == 1 ? "1 day, " : fmt::format("{} days, ", days);
  return text + fmt::format("{}:{:02}:{:02}", total % 86400 / 3600, total / 60 % 60, total % 60);
}

// transformers' names for TensorBoard: eval_loss -> eval/loss, everything else under train/.
std::string tensorboard_tag(const std::string& key) {
  return key.starts_with("eval_") ? "eval/" + key.substr(5) : "train/" + key;
}

// How another tracker reads the log.
std::string import_command(const std::string& tracker, const fs::path& folder) {
  if (tracker == "swanlab") return "; swanlab imports them when the run has ended";
  if (tracker == "wandb") return fmt::format("; wandb sync {} imports them", folder.string());
  return "";
}

// JSON has no NaN; readers of these logs (pandas, ours) read null as NaN.
std::string json_text(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace); }

// The step of a line, in any layout; none if the line belongs to no step.
std::optional<int64_t> step_of(const Json& line) {
  if (line.contains("current_steps") && line["current_steps"].is_number_integer()) return line["current_steps"].get<int64_t>();
  if (!line.contains("global_step/max_steps") || !line["global_step/max_steps"].is_string()) return std::nullopt;
  return std::atoll(line["global_step/max_steps"].get_ref<const std::string&>().c_str());
}

// A killed run logged steps after its last checkpoint, which are now repeated: the log keeps each step once.
void forget_later_steps(const fs::path& file, int64_t first_step) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return;
  std::string kept;
  bool dropped = false;
  std::istringstream lines(read_file(file));
  for (std::string text; std::getline(lines, text);) {
    auto line = parse_json(text);
    auto step = line && line->is_object() ? step_of(*line) : std::nullopt;
    bool half = !line.ok();
    if (half || (step && *step > first_step))
      dropped = true;
    else
      kept += text + "\n";
  }
  if (dropped) write_file_atomically(file, kept);
}

}  // namespace

fs::path event_folder(const TrainerConfig& config, const RunFolder& run) {
  return (config.logging_dir.empty() ? run.root / "runs" : config.logging_dir) / config.run_name;
}

RunLog::RunLog(const TrainerConfig& config, const RunFolder& run, at::Device device, int64_t first_step, bool silent)
    : config_(config), file_(run.log_file(config.layout)), device_(device), first_step_(first_step), silent_(silent) {
  if (silent_) return;
  if (first_step > 0) forget_later_steps(file_, first_step);
  auto folder = event_folder(config, run);
  for (const auto& sink : config.report_to) {
    if (sink != "tensorboard" && sink != "all")
      log::warn_once(fmt::format("`report_to` {}: written as TensorBoard files{}", sink, import_command(sink, folder)));
    if (!events_) events_ = std::make_unique<EventFile>(folder);
  }
}

double RunLog::seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }

double RunLog::remaining_seconds(const TrainState& state) const {
  auto done = static_cast<double>(state.global_step - first_step_);
  return done > 0 ? seconds() / done * static_cast<double>(state.max_steps - state.global_step) : 0.0;
}

void RunLog::append(const Json& line) {
  try {
    append_line(file_, json_text(line));
  } catch (const UserError& cause) {
    log::warn_once(fmt::format("{}; the run continues without this log", cause.what()));
  }
}

Json RunLog::swift_line(const Json& values, const TrainState& state) const {
  Json line = values;
  line["epoch"] = state.epoch;
  line["global_step/max_steps"] = fmt::format("{}/{}", state.global_step, state.max_steps);
  line["elapsed_time"] = spoken_duration(seconds());
  line["remaining_time"] = spoken_duration(remaining_seconds(state));
  line["memory(GiB)"] = round_to(static_cast<double>(device::memory_use(device_).peak) / kGibibyte, 2);
  auto done = static_cast<double>(state.global_step - first_step_);
  line["train_speed(s/it)"] = round_to(done > 0 ? seconds() / done : 0.0, 6);
  return round_floats(line, 8);
}

Json RunLog::factory_line(const Json& values, const TrainState& state) const {
  Json line{{"current_steps", state.global_step}, {"total_steps", state.max_steps}};
  for (auto [from, to] :
       {std::pair{"loss", "loss"}, {"eval_loss", "eval_loss"}, {"rewards/accuracies", "accuracy"}, {"learning_rate", "lr"}})
    if (values.contains(from)) line[to] = values[from];
  line["epoch"] = state.epoch;
  auto share = state.max_steps > 0 ? static_cast<double>(state.global_step) / static_cast<double>(state.max_steps) : 1.0;
  line["percentage"] = round_to(share * 100, 2);
  line["elapsed_time"] = clock_duration(seconds());
  line["remaining_time"] = clock_duration(remaining_seconds(state));
  if (config_.count_tokens) {
    line["throughput"] = round_to(static_cast<double>(state.tokens_seen) / std::max(seconds(), 1e-9), 2);
    line["total_tokens"] = state.tokens_seen;
  }
  return line;
}

void RunLog::record(const Json& values, TrainState& state) {
  Json item = values;
  item["epoch"] = state.epoch;
  if (!silent_) publish(values, item, state);
  item["step"] = state.global_step;
  state.log_history.push_back(std::move(item));
}

void RunLog::publish(const Json& values, const Json& item, const TrainState& state) {
  bool swift = config_.layout == Layout::swift;
  auto line = swift ? swift_line(values, state) : factory_line(values, state);
  if (terminal::is_terminal(1))
    print_line(compact_line(values, state, static_cast<size_t>(terminal::columns())));
  else
    print_line(python_repr(swift ? line : round_floats(item, 8)));
  append(line);
  if (!events_) return;
  for (const auto& [key, value] : values.items())
    if (value.is_number()) events_->add(tensorboard_tag(key), value.get<double>(), state.global_step);
  events_->add("train/epoch", state.epoch, state.global_step);
}

std::string compact_line(const Json& values, const TrainState& state, size_t width) {
  static const std::pair<std::string_view, std::string_view> kShort[] = {
      {"learning_rate", "lr"},       {"grad_norm", "grad"},
      {"token_acc", "acc"},          {"rewards/accuracies", "accuracy"},
      {"rewards/margins", "margin"}, {"completions/mean_length", "length"}};
  // The metrics that show whether a method learns; a terminal has no room for all.
  static constexpr std::string_view kFirst[] = {"loss",
                                                "eval_loss",
                                                "train_loss",
                                                "reward",
                                                "reward_std",
                                                "objective/scores",
                                                "objective/kl",
                                                "kl",
                                                "completions/mean_length",
                                                "rewards/accuracies",
                                                "rewards/margins",
                                                "grad_norm",
                                                "learning_rate"};
  auto line = fmt::format("step {}/{}  epoch {:.2f}", state.global_step, state.max_steps, state.epoch);
  auto add = [&](const std::string& key, const Json& value) {
    if (!value.is_number() || key == "epoch" || key == "total_flos") return;
    std::string_view name = key;
    for (const auto& [whole, brief] : kShort)
      if (whole == key) name = brief;
    auto number = value.get<double>();
    auto item = value.is_number_integer() ? fmt::format("  {} {}", name, value.dump())
                : name == "lr"            ? fmt::format("  lr {:.2e}", number)
                                          : fmt::format("  {} {:.4g}", name, number);
    if (line.size() + item.size() < width) line += item;
  };
  for (auto first : kFirst)
    if (values.contains(first)) add(std::string(first), values[std::string(first)]);
  for (const auto& [key, value] : values.items())
    if (std::ranges::find(kFirst, key) == std::end(kFirst)) add(key, value);
  return line;
}

std::string python_repr(const Json& value) {
  if (value.is_number_float()) {
    auto text = fmt::format("{}", value.get<double>());
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  if (value.is_string()) return "'" + value.get<std::string>() + "'";
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items())
    text += (text.empty() ? "" : ", ") + (value.is_object() ? "'" + key + "': " : "") + python_repr(item);
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

Json round_floats(const Json& value, int digits) {
  if (value.is_number_float()) return round_to(value.get<double>(), digits);
  if (!value.is_structured()) return value;
  Json rounded = value;
  for (auto& item : rounded) item = round_floats(item, digits);
  return rounded;
}

std::string metrics_table(const std::string& split, const Json& metrics) {
  std::vector<std::pair<std::string, std::string>> rows;
  size_t key_width = 0, value_width = 0;
  for (const auto& [key, value] : metrics.items()) {
    std::string text = key.ends_with("_runtime") ? clock_duration(value.get<double>()) +
                                                       fmt::format("{:.2f}", std::fmod(value.get<double>(), 1.0)).substr(1)
                       : key == "total_flos" ? fmt::format("{}GF", static_cast<int64_t>(value.get<double>()) >> 30)
                                             : python_repr(round_floats(value, 4));
    key_width = std::max(key_width, key.size());
    value_width = std::max(value_width, text.size());
    rows.emplace_back(key, std::move(text));
  }
  std::sort(rows.begin(), rows.end());
  std::string table = fmt::format("***** {} metrics *****\n", split);
  for (const auto& [key, text] : rows) table += fmt::format("  {:<{}} = {:>{}}\n", key, key_width, text, value_width);
  return table;
}

}  // namespace hone::train
