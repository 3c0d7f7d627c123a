#include "hone/cli/parsing/command_line.h"

#include <algorithm>
#include <cstdlib>

#include "hone/cli/accelerate.h"
#include "hone/cli/factory_v1/v1_command.h"
#include "hone/cli/megatron/megatron.h"
#include "hone/cli/parsing/environment.h"

namespace hone::cli {
namespace {

bool is_assignment(std::string_view word) {
  auto equals = word.find('=');
  return equals != word.npos && equals > 0 &&
         word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == equals;
}

std::string_view base_name(std::string_view word) { return word.substr(word.find_last_of('/') + 1); }

bool is_config(std::string_view word) { return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json"); }

bool is_python(std::string_view word) {
  return base_name(word).starts_with("python") || base_name(word) == "torchrun" || base_name(word) == "deepspeed";
}

// The front end of a config file follows from its keys.
std::vector<std::string> command_for(const std::string& path, const SystemAccess& system) {
  auto entries = read_entries(path, system.read_file(path));
  auto has = [&](std::string_view key) { return std::ranges::any_of(entries, [&](const FileEntry& e) { return e.key == key; }); };
  if (has("model_name_or_path") || has("stage") || has("finetuning_type")) {
    if (has("export_dir")) return {"llamafactory-cli", "export"};
    return {"llamafactory-cli", has("do_train") || has("do_predict") || has("stage") || has("output_dir") ? "train" : "chat"};
  }
  if (has("rlhf_type")) return {"swift", "rlhf"};
  return {"swift", has("dataset") || has("output_dir") ? "sft" : "infer"};
}

// Without a command, options that belong to a single command identify it.
std::vector<std::string> command_for_options(const std::vector<std::string>& words, FrontEnd front_end) {
  auto has = [&](std::string_view name) {
    return std::ranges::any_of(words, [&](std::string_view word) {
      if (!word.starts_with("--")) return false;
      std::string typed(word.substr(2, word.find('=') - 2));
      std::ranges::replace(typed, '-', '_');
      return typed == name;
    });
  };
  if (front_end == FrontEnd::factory || has("stage") || has("model_name_or_path")) return {"llamafactory-cli", "train"};
  return {std::string(program_name(front_end)), has("rlhf_type") ? "rlhf" : "sft"};
}

// For a command line that may set them itself.
int processes_of(const CommandLine& line, const SystemAccess& system) {
  return processes_of_environment(with_environment(system, line.environment));
}

}  // namespace

CommandLine read_command_line(std::vector<std::string> words, const SystemAccess& system, FrontEnd front_end) {
  CommandLine line;
  std::vector<std::string> notes;
  size_t first = 0;
  for (; first < words.size() && is_assignment(words[first]); ++first) {
    auto equals = words[first].find('=');
    line.environment.emplace_back(words[first].substr(0, equals), words[first].substr(equals + 1));
  }
  words.erase(words.begin(), words.begin() + static_cast<long>(first));
  if (words.empty())
    throw UserError(ExitCode::usage, "the command is missing",
                    "name one, as in: sft --model models/nano --dataset data/demo.jsonl");
  if (words[0].starts_with("-")) {
    auto command = command_for_options(words, front_end);
    words.insert(words.begin(), command.begin(), command.end());
  } else if (is_config(words[0])) {
    auto command = command_for(words[0], system);
    words.insert(words.begin(), command.begin(), command.end());
  } else if (is_python(words[0])) {
    auto launched = unwrap_launcher({words.begin() + 1, words.end()});
    const bool swift = launched.front_end == FrontEnd::swift;
    words = std::move(launched.words);
    notes = std::move(launched.notes);
    words.insert(words.begin(), {swift ? "swift" : "llamafactory-cli", launched.command});
  }
  bool named = front_end_of(words[0]) != FrontEnd::hone || base_name(words[0]) == "hone";
  if (named) front_end = front_end_of(words[0]);
  const bool megatron = is_megatron(words[0]);
  if (named) words.erase(words.begin());
  if (words.empty()) throw UserError(ExitCode::usage, "the program was given without a command");
  if (megatron) {
    auto given = with_megatron_file(std::move(words), with_environment(system, line.environment));
    line.environment.insert(line.environment.end(), given.environment.begin(), given.environment.end());
    words = unwrap_megatron(given.words, processes_of(line, system));
  }
  const auto inside = with_environment(system, line.environment);
  if (front_end == FrontEnd::factory && asks_for_v1(inside)) words = unwrap_v1(words, inside, processes_of(line, system));
  line.invocation = read_invocation(front_end, std::move(words));
  line.invocation.notes.insert(line.invocation.notes.begin(), notes.begin(), notes.end());
  return line;
}

SystemAccess with_environment(const SystemAccess& system, const Assignments& environment) {
  auto outer = system.environment;
  return {system.read_file, [outer, environment](const std::string& name) -> std::optional<std::string> {
            for (const auto& [key, value] : environment)
              if (key == name) return value;
            return outer(name);
          }};
}

}  // namespace hone::cli
