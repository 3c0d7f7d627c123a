#include "hone/cli/parsing/parse.h"

#include "hone/base/file.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/compat/names.h"
#include "hone/cli/megatron/megatron.h"
#include "hone/cli/parsing/environment.h"
#include "hone/cli/parsing/option_assigner.h"
#include "hone/cli/parsing/unknown_option.h"

namespace hone::cli {
namespace {

// The option that a bare path was probably meant for, by its contents; empty if unknown.
std::string option_for_path(const std::string& path) {
  std::error_code ignored;  // also for strings that exceed the maximum length of a path
  if (fs::exists(fs::path(path) / "adapter_config.json", ignored)) return "adapters";
  if (fs::exists(fs::path(path) / "config.json", ignored)) return "model";
  auto type = fs::path(path).extension();
  bool table = type == ".jsonl" || type == ".json" || type == ".csv" || type == ".tsv" || type == ".parquet";
  return table && fs::is_regular_file(path, ignored) ? "dataset" : "";
}

bool is_option(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  bool number = std::isdigit(static_cast<unsigned char>(word[1])) || word[1] == '.';
  return !number;
}

bool is_config_path(std::string_view word) {
  return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
}

class Parser {
 public:
  Parser(const Syntax& syntax, const SystemAccess& system)
      : syntax_(syntax),
        system_(system),
        names_(syntax.front_end, syntax.verb),
        parsed_{Options(syntax.front_end, syntax.command, syntax.verb), {}, {}, false},
        assigner_(parsed_),
        factory_(syntax.front_end == FrontEnd::factory || syntax.front_end == FrontEnd::accelerate) {}

  Parsed run(const std::vector<std::string>& words) {
    tolerate_unknown_ = asks_to_ignore_errors(words) || environment_flag(system_, "ALLOW_EXTRA_ARGS").value_or(false);
    take_environment();
    size_t first = 0;
    if (syntax_.config_first && !words.empty() && is_config_path(words[0])) take_file(words[first++]);
    for (size_t i = first; syntax_.config_first && i < words.size(); ++i) take_config_option(words, i);
    take_words(words, first);
    settle_megatron_keys();
    return std::move(parsed_);
  }

 private:
  using Words = std::vector<std::string>;

  static bool asks_to_ignore_errors(const Words& words) {
    for (size_t i = 0; i < words.size(); ++i) {
      auto word = underscored(words[i]);
      if (word == "__ignore_args_error=true" || word == "__ignore_args_error=1") return true;
      if (word == "__ignore_args_error")
        return i + 1 == words.size() || words[i + 1] == "true" || words[i + 1] == "1" || is_option(words[i + 1]);
    }
    return false;
  }

  void take_environment() {
    for (const auto* option : names_.rows()) {
      if (option->variable.empty()) continue;
      auto value = system_.environment(std::string(option->variable));
      if (value && !value->empty())
        assigner_.assign({option, nullptr}, Json(*value), Source::environment, std::string(option->variable), false);
    }
  }

  void take_config_option(const Words& words, size_t i) {
    if (words[i] == "--config" && i + 1 < words.size()) take_file(words[i + 1]);
    if (words[i].starts_with("--config=")) take_file(words[i].substr(9));
  }

  void take_file(const std::string& path) {
    for (const auto& entry : read_entries(path, system_.read_file(path))) {
      auto where = entry.line ? fmt::format("{}:{}", path, entry.line) : path;
      if (entry.key == "ENV" && entry.value.is_object()) {
        export_variables(entry.value, where);
        continue;
      }
      auto name = underscored(entry.key);
      auto found = find(name);
      if (!found) {
        unknown_key({name, entry.value, Source::file, where, fmt::format("{}: unknown key \"{}\"", where, entry.key)});
        continue;
      }
      assigner_.assign(*found, entry.value, Source::file, where, factory_ || syntax_.front_end == FrontEnd::hone);
    }
  }

  void export_variables(const Json& variables, const std::string& where) {
    for (const auto& [name, value] : variables.items()) {
      if (system_.environment(name)) {
        parsed_.notes.push_back(fmt::format("{}: {} is already set in the environment, whose value is used", where, name));
      } else {
        parsed_.environment.emplace_back(name, show_value(value));
      }
    }
  }

  void take_words(const Words& words, size_t i) {
    bool only_words = false;
    while (i < words.size()) {
      const auto& word = words[i++];
      const bool help = word == "-h" || word == "--help";
      if (syntax_.passes_options && !only_words && !help && !is_own_option(word)) {
        if (word != "--" || !parsed_.options.positional().empty()) parsed_.options.add_word(word);
      } else if (word == "--" && !only_words) {
        only_words = true;
      } else if (only_words || !is_option(word)) {
        only_words |= syntax_.whole_line;
        take_plain_word(word);
      } else if (help) {
        parsed_.help = true;
        while (i < words.size() && !is_option(words[i]))
          parsed_.help_topic += (parsed_.help_topic.empty() ? "" : " ") + words[i++];
      } else {
        take_option(word, words, i);
      }
    }
  }

  // For a command that passes options on: whether no other command has this one.
  bool is_own_option(const std::string& word) const {
    if (!is_option(word)) return false;
    auto typed = word.substr(0, word.find('='));
    auto name = underscored(std::string_view(typed).substr(typed.starts_with("--") ? 2 : 1));
    auto found = typed.starts_with("--") || name.size() != 1 ? names_.find(name) : names_.find_letter(name[0]);
    return found && found->option->verbs == syntax_.verb;
  }

  // key=value, LLaMA-Factory's syntax to override a file; otherwise an argument such as a file name.
  void take_plain_word(const std::string& word) {
    auto equals = word.find('=');
    if (overrides(word)) return take_override(word.substr(0, equals), word.substr(equals + 1));
    if (room_for_words()) return parsed_.options.add_word(word);
    if (auto option = option_for_path(word); !option.empty() && names_.find(option))
      throw UserError(ExitCode::usage, fmt::format("unexpected word \"{}\"", word),
                      fmt::format("did you mean --{} {}", option, word));
    unknown(fmt::format("unexpected word \"{}\"", word), underscored(word), "--");
  }

  bool overrides(const std::string& word) const {
    auto equals = word.find('=');
    return syntax_.config_first && syntax_.front_end != FrontEnd::swift && equals != std::string::npos && equals > 0;
  }
  bool room_for_words() const { return static_cast<int>(parsed_.options.positional().size()) < syntax_.max_words; }

  void take_override(const std::string& key, const std::string& text) {
    auto dot = key.find('.');
    auto name = underscored(key.substr(0, dot));
    auto found = find(name);
    auto value = parse_yaml(text);
    Json given = value && !value->is_object() ? *value : Json(text);
    if (!found) return unknown_key({name, given, Source::command_line, key + "=", fmt::format("unknown key \"{}\"", key)});
    if (dot == std::string::npos) return assigner_.assign(*found, given, Source::command_line, key + "=", true);
    Json whole = parsed_.options.setting(found->option->name).value;
    if (whole.is_null() && found->option->type.kind == Kind::json)
      whole = Json::object();  // as OmegaConf, which reads these words
    if (!whole.is_object()) throw UserError(ExitCode::usage, fmt::format("{}: \"{}\" holds no mapping to reach into", key, name));
    auto path = key.substr(dot);
    std::replace(path.begin(), path.end(), '.', '/');
    try {
      whole[Json::json_pointer(path)] = given;
    } catch (const Json::exception&) {
      throw UserError(ExitCode::usage, fmt::format("{}: no such key in \"{}\"", key, name));
    }
    assigner_.assign(*found, whole, Source::command_line, key + "=", true);
  }

  void take_option(const std::string& word, const Words& words, size_t& i) {
    auto equals = word.find('=');
    auto typed = word.substr(0, equals);
    auto name = underscored(std::string_view(typed).substr(typed.starts_with("--") ? 2 : 1));
    bool is_letter = !typed.starts_with("--");
    auto found = is_letter && name.size() == 1 ? names_.find_letter(name[0]) : find(name);
    bool negated = false;
    if (!found && name.starts_with("no_")) {
      found = find(name.substr(3));
      if (found && found->option->type.kind != Kind::flag) found.reset();
      negated = found.has_value();
    }
    if (!found) {
      unknown(fmt::format("unknown option {}", typed), name, "--");
      while (i < words.size() && !is_option(words[i])) ++i;
      return;
    }
    if (negated) return assigner_.assign(*found, Json(false), Source::command_line, typed, false);
    auto given = equals != std::string::npos ? Json(word.substr(equals + 1)) : following(*found->option, typed, words, i);
    assigner_.assign(*found, given, Source::command_line, typed, factory_);
  }

  // The arguments after an option that belong to it.
  Json following(const Option& option, const std::string& typed, const Words& words, size_t& i) {
    auto next = i < words.size() && !is_option(words[i]) ? std::optional(words[i]) : std::nullopt;
    if (option.type.kind == Kind::flag) {
      // A bare flag may be followed by a file name, so it only takes an argument that is a boolean.
      bool is_value =
          next && (read_value(option, Json(*next)).ok() || (*next == "auto" && OptionAssigner::may_be_automatic(option)));
      bool is_word = next && (overrides(*next) || room_for_words());
      if (!next || (!is_value && is_word)) return Json(true);
      return ++i, Json(*next);
    }
    if (option.type.kind == Kind::list) {
      Json list = Json::array();
      while (i < words.size() && !is_option(words[i])) list.push_back(words[i++]);
      return list.size() == 1 ? list[0] : list;
    }
    // A value may start with a dash if it cannot be an option: "-" is standard input.
    if (!next && i < words.size() && words[i] == "-") next = words[i];
    if (!next) throw UserError(ExitCode::usage, fmt::format("{} needs a value: {}", typed, describe(option.type)));
    return ++i, Json(*next);
  }

  std::optional<NamedOption> find(const std::string& name) const {
    auto found = names_.find(name);
    // An abbreviation, as argparse takes it; a full name of ms-swift's, such as `stream`, is none.
    const bool is_short = syntax_.front_end == FrontEnd::swift && name.size() > 1;
    if (!found && is_short && !compat::takes(syntax_.front_end, syntax_.verb, name)) found = names_.find_prefix(name);
    return found;
  }

  // An unknown key of a config file or an override.
  struct UnknownKey {
    std::string name;
    Json value;
    Source source;
    std::string where, what;
  };

  // LLaMA-Factory's config files for Megatron mix its keys with the others. Whether this is such a run is known only at the end.
  void unknown_key(UnknownKey key) {
    if (factory_ && find_megatron_option(key.name))
      megatron_keys_.push_back(std::move(key));
    else
      unknown(key.what, key.name, "");
  }

  void settle_megatron_keys() {
    const Options options(parsed_.options);
    const DistributedArguments distributed(options);
    const bool megatron = factory_ && (*distributed.use_mca || *distributed.use_megatron_bridge);
    for (const auto& key : megatron_keys_) {
      const auto& known = *find_megatron_option(key.name);
      const auto renamed = known.fate == MegatronOption::Fate::renamed ? find(std::string(known.text)) : std::nullopt;
      if (!megatron || (known.fate == MegatronOption::Fate::renamed && !renamed)) {
        unknown(key.what, key.name, "");
        continue;
      }
      const auto place = key.source == Source::file ? fmt::format("{}: {}", key.where, key.name) : key.name;
      if (renamed)
        assigner_.assign(*renamed, key.value, key.source, key.where, true);
      else if (known.fate == MegatronOption::Fate::accepted)
        parsed_.notes.push_back(fmt::format("{} is accepted without effect: {}", place, known.text));
      else if (!is_neutral(known, show_value(key.value)))
        throw UserError(ExitCode::usage, fmt::format("{} is {}: {}", place, show_value(key.value), known.text));
    }
  }

  void unknown(const std::string& what, const std::string& name, const char* dashes) {
    if (auto note = note_or_refuse_unknown(syntax_, names_, {what, name, dashes, tolerate_unknown_}))
      parsed_.notes.push_back(std::move(*note));
  }

  const Syntax& syntax_;
  const SystemAccess& system_;
  NameIndex names_;
  Parsed parsed_;
  OptionAssigner assigner_;
  bool factory_;
  bool tolerate_unknown_ = false;
  std::vector<UnknownKey> megatron_keys_;
};

}  // namespace

std::string underscored(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

Parsed parse_arguments(const Syntax& syntax, const std::vector<std::string>& words, const SystemAccess& system) {
  return Parser(syntax, system).run(words);
}

}  // namespace hone::cli
