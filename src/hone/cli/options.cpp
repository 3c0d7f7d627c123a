#include "hone/cli/options.h"

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/cli/commands.h"

namespace hone::cli {

std::string_view source_name(Source source) {
  switch (source) {
    case Source::built_in:
      return "default";
    case Source::automatic:
      return "auto";
    case Source::environment:
      return "environment";
    case Source::checkpoint:
      return "checkpoint";
    case Source::file:
      return "file";
    case Source::command_line:
      return "command line";
  }
  return "";
}

Options::Options(FrontEnd front_end, std::string command, Verbs verb)
    : front_end_(front_end), command_(std::move(command)), verb_(verb) {
  for (const auto& option : options_table()) {
    if (!(option.verbs & verb)) continue;
    auto text = default_text(option, front_end, verb);
    Setting setting{.option = &option};
    setting.is_auto = text == "auto";
    if (setting.is_auto || text.empty()) {
      setting.value = option.type.kind == Kind::list ? Json::array() : Json();
    } else {
      auto value = read_value(option, Json(text), true);
      HONE_CHECK(value.ok(), "default {} of {}: {}", text, option.name, value.error());
      setting.value = *value;
    }
    auto [_, added] = settings_.emplace(option.name, std::move(setting));
    HONE_CHECK(added, "two rows named {} for one command", option.name);
  }
}

const Setting& Options::setting(std::string_view name) const {
  auto found = settings_.find(name);
  HONE_CHECK(found != settings_.end(), "no option {} in {}", name, command_);
  found->second.read = true;
  return found->second;
}

const Json& Options::value(std::string_view name, std::string_view wanted) const {
  const auto& value = setting(name).value;
  HONE_CHECK(!value.is_null(), "option {} is none; ask has() before {}()", name, wanted);
  return value;
}

bool Options::has(std::string_view name) const {
  const auto& value = setting(name).value;
  return !value.is_null() && !(value.is_array() && value.empty());
}

bool Options::is_set(std::string_view name) const {
  auto source = setting(name).source;
  return source != Source::built_in && source != Source::automatic;
}

std::string Options::text(std::string_view name) const {
  if (setting(name).is_auto) return "auto";
  const auto& value = setting(name).value;
  return value.is_null() ? std::string() : value.is_string() ? value.get<std::string>() : show_value(value);
}

double Options::real(std::string_view name) const { return value(name, "real").get<double>(); }
int64_t Options::integer(std::string_view name) const { return value(name, "integer").get<int64_t>(); }

bool Options::flag(std::string_view name) const {
  const auto& value = setting(name).value;
  return value.is_boolean() && value.get<bool>();
}

std::vector<std::string> Options::list(std::string_view name) const {
  const auto& value = setting(name).value;
  return value.is_null() ? std::vector<std::string>{} : value.get<std::vector<std::string>>();
}

std::vector<double> Options::reals(std::string_view name) const {
  static constexpr Option kNumber("number", Real(), "", "");
  std::vector<double> numbers;
  for (const auto& word : list(name)) {
    auto number = read_value(kNumber, word);
    if (!number || number->is_null())
      throw UserError(ExitCode::usage, fmt::format("{} holds \"{}\"; expected numbers", display_name(name), word));
    numbers.push_back(number->get<double>());
  }
  return numbers;
}

Json Options::json(std::string_view name) const {
  const auto& value = setting(name).value;
  if (!value.is_string()) return value;
  auto path = value.get<std::string>();
  if (!fs::exists(path))
    throw UserError(ExitCode::usage,
                    fmt::format("{} is \"{}\"; expected JSON, or a path to a JSON file", display_name(name), path));
  return read_config_file(path);
}

std::string Options::required(std::string_view name) const {
  if (!has(name))
    throw UserError(ExitCode::usage, fmt::format("{} is required", display_name(name)),
                    fmt::format("{} {} --help lists the options", program_name(front_end_), command_));
  return text(name);
}

Source Options::source(std::string_view name) const { return setting(name).source; }

std::string Options::display_name(std::string_view name) const {
  const auto& found = setting(name);
  return fmt::format("--{}", found.alias.empty() ? shown_name(*found.option, front_end_) : found.alias);
}

void Options::set(std::string_view name, Json value, Source source, std::string where) {
  auto found = settings_.find(name);
  HONE_CHECK(found != settings_.end(), "no option {} in {}", name, command_);
  auto& setting = found->second;
  setting.value = std::move(value), setting.source = source, setting.where = std::move(where), setting.is_auto = false;
  setting.alias = {};
}

void Options::remember_alias(std::string_view name, std::string_view alias) { settings_.find(name)->second.alias = alias; }

TypedNames Options::aliases() const {
  TypedNames names;
  for (const auto& [name, setting] : settings_)
    if (!setting.alias.empty()) names.emplace(name, setting.alias);
  return names;
}

void Options::leave_undecided(std::string_view name) {
  set(name, nullptr, Source::built_in, "");
  settings_.find(name)->second.is_auto = true;
}

void Options::resolve(std::string_view name, Json value) { set(name, std::move(value), Source::automatic, "auto"); }

std::vector<const Setting*> Options::in_order() const {
  std::vector<const Setting*> rows;
  for (const auto& [_, setting] : settings_) rows.push_back(&setting);
  std::sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->option < b->option; });
  return rows;
}

Json Options::to_json() const {
  Json object = Json::object();
  for (const auto* setting : in_order()) {
    auto name = setting->option->name;
    object[std::string(name)] = is_secret(name) ? Json() : without_passwords(setting->value);
  }
  return object;
}

std::vector<const Setting*> Options::given_but_unread() const {
  std::vector<const Setting*> rows;
  for (const auto* setting : in_order()) {
    bool by_hand = setting->source == Source::file || setting->source == Source::command_line;
    bool for_parsing = setting->option->group == "Every command";
    if (by_hand && !for_parsing && !setting->read && setting->option->status == Status::supported) rows.push_back(setting);
  }
  return rows;
}

void Options::accept_unread() const {
  for (const auto& [_, setting] : settings_) setting.read = true;
}

}  // namespace hone::cli
