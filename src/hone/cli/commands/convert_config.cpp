// The native command for a command line or config file of ms-swift, LLaMA-Factory or accelerate: only what differs from hone's own
// defaults, in hone's own names. Running it resolves to the same configuration.
#include "hone/cli/commands/convert_config.h"

namespace hone::cli {
namespace {

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%#~";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos && word[0] != '#' && word[0] != '~') return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string value_words(const Setting& setting) {
  if (setting.undecided) return " auto";
  const auto& value = setting.value;
  if (value.is_array() && !value.empty()) {
    bool words = std::ranges::all_of(value, [](const Json& item) { return item.is_string() && !item.get_ref<const std::string&>().starts_with('-'); });
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

// The native verb that does what the command does. LLaMA-Factory's one training verb is two of them.
std::string native_verb(const Invocation& invocation, const Options& options) {
  if (!(options.verb() & kTrain)) return std::string(invocation.command->name);
  auto stage = options.text("stage");
  return stage == "sft" || stage == "pt" ? stage : "train";
}

bool matters(const Setting& setting, FrontEnd front_end) {
  if (setting.option->status == Status::accepted || setting.option->status == Status::always) return false;
  return setting.source != Source::built_in || belongs_to(*setting.option, front_end);
}

}  // namespace

std::string native_command(const Invocation& invocation, const Options& options) {
  auto verb = native_verb(invocation, options);
  Options native(FrontEnd::hone, verb, find_command(FrontEnd::hone, verb)->verb);
  auto out = "hone " + verb;
  for (const auto* setting : options.in_order()) {
    auto name = setting->option->name;
    if (!matters(*setting, options.front_end()) || !native.knows(name) || name == "config") continue;
    const auto& fallback = native.setting(name);
    if (fallback.undecided == setting->undecided && fallback.value == setting->value) continue;
    out += fmt::format(" --{}{}", name, value_words(*setting));
  }
  return out;
}

int convert_config_command(const Options& options) {
  auto world = real_world();
  auto line = read_command_line(options.words(), world);
  auto parsed = parse_invocation(line.invocation, with_environment(world, line.environment));
  std::string out;
  for (const auto* list : {&line.environment, &parsed.environment})
    for (const auto& [name, value] : *list) out += fmt::format("{}={} ", name, shell_quoted(value));
  fmt::print("{}{}\n", out, native_command(line.invocation, parsed.options));
  for (const auto& remark : parsed.remarks) fmt::print(stderr, "left out: {}\n", remark);
  return 0;
}

}  // namespace hone::cli
