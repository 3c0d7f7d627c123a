// The native command for a command line or config file of ms-swift, LLaMA-Factory or accelerate: only the options that differ
// from hone's defaults, by hone's names. Running it resolves to the same configuration.
#include "hone/cli/commands/convert_config.h"

#include "hone/base/strings/shell_quoted.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/training/preference_config.h"

namespace hone::cli {
namespace {

constexpr std::string_view kGenerationGroup = "Generation";

std::string value_words(const Setting& setting) {
  if (setting.is_auto) return " auto";
  const auto& value = setting.value;
  if (value.is_array() && !value.empty()) {
    bool words = std::ranges::all_of(
        value, [](const Json& item) { return item.is_string() && !item.get_ref<const std::string&>().starts_with('-'); });
    if (!words || setting.option->type.kind != Kind::list) return " " + shell_quoted(value.dump());
    std::string out;
    for (const auto& item : value) out += " " + shell_quoted(item.get<std::string>());
    return out;
  }
  if (value.is_array()) return " none";
  if (value.is_object()) return " " + shell_quoted(value.dump());
  auto text = show_value(value);
  return text.starts_with('-') && !value.is_number() ? "=" + shell_quoted(text) : " " + shell_quoted(text);
}

// The equivalent native command. LLaMA-Factory's `train` maps to one of two.
std::string native_verb(const Invocation& invocation, const Options& options) {
  if (!(options.verb() & kTrain)) return std::string(invocation.command->name);
  auto stage = *TrainingArguments(options).stage;
  return stage == "sft" || stage == "pt" ? stage : "train";
}

bool is_supervised(const TrainingArguments& args) {
  if (args.verb() & (kSft | kPt)) return true;
  const auto stage = args.verb() & kTrain ? *args.stage : "";
  return stage == "sft" || stage == "pt";
}

bool uses_galore(const OptimizerArguments& args) {
  if (*args.use_galore || args.optim->starts_with("galore")) return true;
  return *args.optimizer == "galore";
}

// Defaults of a component that the command does not use.
bool is_idle(const Setting& setting, const Options& options) {
  const bool trains = options.verb() & kTraining;
  const auto name = setting.option->name, group = setting.option->group;
  if (!trains) return false;
  if (name.starts_with("galore_")) return !uses_galore(OptimizerArguments(options));
  if (name == "shuffle_buffer_size") return !DataArguments(options).streaming;
  if (name == "add_version") return uses_factory_dialect(options);
  if (!is_supervised(TrainingArguments(options))) return false;
  if (name == "loss_type") return true;
  return group == kGenerationGroup && !TrainingArguments(options).predict_with_generate && !TrainingArguments(options).do_predict;
}

}  // namespace

bool matters(const Setting& setting, const Options& options) {
  if (setting.option->status == Status::no_effect || setting.option->status == Status::always_on) return false;
  if (setting.option->name == "loss_type" && is_supervised(TrainingArguments(options)) && uses_factory_dialect(options))
    return false;  // theirs is a preference loss
  return setting.source != Source::built_in || (belongs_to(*setting.option, options.front_end()) && !is_idle(setting, options));
}

std::string native_command(const Invocation& invocation, const Options& options) {
  auto verb = native_verb(invocation, options);
  Options native(FrontEnd::hone, verb, find_command(FrontEnd::hone, verb)->verb);
  auto out = "hone " + verb;
  for (const auto* setting : options.in_order()) {
    auto name = setting->option->name;
    if (!matters(*setting, options) || !native.has_option(name) || name == "config") continue;
    const auto& fallback = native.setting(name);
    if (fallback.is_auto == setting->is_auto && fallback.value == setting->value) continue;
    out += fmt::format(" --{}{}", name, value_words(*setting));
  }
  return out;
}

int convert_config_command(const Options& options) {
  auto system = system_access();
  auto line = read_command_line(options.positional(), system);
  auto parsed = parse_invocation(line.invocation, with_environment(system, line.environment));
  if (parsed.options.verb() & kTraining) check_method(parsed.options);
  std::string out;
  for (const auto* list : {&line.environment, &parsed.environment})
    for (const auto& [name, value] : *list) out += fmt::format("{}={} ", name, shell_quoted(value));
  fmt::print("{}{}\n", out, native_command(line.invocation, parsed.options));
  for (const auto& note : parsed.notes) fmt::print(stderr, "left out: {}\n", note);
  return 0;
}

}  // namespace hone::cli
