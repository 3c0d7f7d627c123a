// Checks whether a full command line from a guide parses: `hone check-args NPROC_PER_NODE=2 swift sft --model x`. With `-`, reads
// one command line per line of standard input, each a JSON list of arguments, and writes one JSON result each: the resolved
// options.
#include <iostream>

#include "hone/base/file.h"
#include "hone/cli/commands/convert_config.h"
#include "hone/cli/dialect_flags.h"
#include "hone/cli/parsing/environment.h"
#include "hone/cli/parsing/option_conflicts.h"
#include "hone/cli/parsing/resolve_auto.h"

namespace hone::cli {
namespace {

// Files that a guide refers to need not exist: a missing config file counts as empty.
SystemAccess forgiving_access() {
  auto system = system_access();
  auto read = system.read_file;
  system.read_file = [read](const std::string& path) { return fs::exists(path) ? read(path) : std::string("{}"); };
  return system;
}

Json resolved(const std::vector<std::string>& words) {
  auto outer = system_access();
  auto line = read_command_line(words, outer);
  auto system = with_environment(outer, line.environment);
  auto parsed = parse_invocation(line.invocation, system);
  auto native = native_command(line.invocation, parsed.options);
  resolve_auto_values(parsed.options, processes_of_environment(with_environment(system, parsed.environment)));
  try {
    check_option_conflicts(Options(parsed.options));
  } catch (const UserError& error) {
    throw in_dialect(error, parsed.options.front_end(), parsed.options.verb());
  }
  Json values = Json::object(), shared = Json::array(), environment = Json::object();
  for (const auto* setting : parsed.options.in_order()) {
    values[std::string(setting->option->name)] = setting->is_auto ? Json("auto") : setting->value;
    bool means_something = setting->option->status == Status::supported &&
                           belongs_to(*setting->option, parsed.options.front_end()) && matters(*setting, parsed.options);
    if (means_something) shared.push_back(setting->option->name);
  }
  for (const auto& [name, value] : parsed.environment) environment[name] = value;
  return {{"values", values},           {"matter", shared}, {"notes", parsed.notes},
          {"environment", environment}, {"native", native}, {"command", line.invocation.command->name}};
}

Json answer(const std::string& line) {
  auto words = parse_json(line);
  if (!words || !words->is_array()) return {{"error", "expected a JSON list of words"}, {"hint", ""}, {"code", 2}};
  try {
    return resolved(words->get<std::vector<std::string>>());
  } catch (const UserError& error) {
    return {{"error", error.what()}, {"hint", error.hint()}, {"code", static_cast<int>(error.code())}};
  }
}

}  // namespace

int check_args_command(const Options& options) {
  auto words = options.positional();
  if (words.size() == 1 && words[0] == "-") {
    for (std::string line; std::getline(std::cin, line);)
      fmt::print("{}\n", answer(line).dump(-1, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  if (!words.empty() && (words.back() == "--help" || words.back() == "--version")) return 0;
  auto system = forgiving_access();
  auto line = read_command_line(words, system);
  parse_invocation(line.invocation, with_environment(system, line.environment));
  return 0;
}

}  // namespace hone::cli
