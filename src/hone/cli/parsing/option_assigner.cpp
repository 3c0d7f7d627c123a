#include "hone/cli/parsing/option_assigner.h"

#include <algorithm>

#include "hone/base/strings/edit_distance.h"
#include "hone/cli/compat/foreign_words.h"
#include "hone/cli/parsing/alias_value.h"

namespace hone::cli {
namespace {

std::string_view nearest_choice(const Type& type, std::string_view typed) {
  std::vector<std::string_view> choices;
  for (auto rest = type.choices; !rest.empty();) {
    choices.push_back(rest.substr(0, rest.find('|')));
    rest.remove_prefix(std::min(rest.size(), choices.back().size() + 1));
  }
  const bool is_number = typed.find_first_not_of("0123456789.-") == std::string_view::npos;
  return is_number ? "" : nearest_word(typed, choices);  // another number is no misspelling
}

}  // namespace

void OptionAssigner::assign(const NamedOption& target, Json given, Source source, std::string where, bool commas) {
  const auto& option = *target.option;
  if (target.alias && !given.is_null()) given = translate_value(*target.alias, given, commas && option.type.kind == Kind::list);
  if (given == "auto" && may_be_automatic(option)) return parsed_.options.leave_undecided(option.name);
  auto value = read_value(option, given, commas);
  const auto place = source == Source::command_line
                         ? where.substr(0, where.find('='))
                         : fmt::format("{}: {}", where, target.alias ? target.alias->name : option.name);
  if (!value) {
    auto meant = compat::value_meant_by(option.name, show_value(given));
    if (meant.empty()) meant = nearest_choice(option.type, show_value(given));
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"; {}", place, show_value(given), value.error()),
                    meant.empty() ? "" : fmt::format("did you mean {}", meant));
  }
  if (value->is_null() && return_to_default(target)) return;
  if (target.alias && target.alias->negated && value->is_boolean()) *value = !value->get<bool>();
  check_value(option, *value, place);
  parsed_.options.set(option.name, std::move(*value), source, std::move(where));
  if (target.alias && !target.alias->negated && target.alias->unit.empty())
    parsed_.options.remember_alias(option.name, target.alias->name);
}

// Null requests the default. It turns a flag off unless hone resolves the flag itself, and unsets an option that a front end
// leaves unset by default.
bool OptionAssigner::return_to_default(const NamedOption& target) {
  const auto& option = *target.option;
  const bool off = option.type.kind == Kind::flag && !(target.alias && target.alias->negated);
  const auto& start = defaults_.setting(option.name);
  if (start.is_auto) return parsed_.options.leave_undecided(option.name), true;
  const bool may_be_none = option.fallback.empty() || (option.factory_differs && option.factory_fallback.empty());
  if (start.value.is_null() || off || may_be_none) return false;
  parsed_.options.set(option.name, start.value, Source::built_in, "");
  return true;
}

bool OptionAssigner::may_be_automatic(const Option& option) {
  auto automatic = [](std::string_view text) { return text == "auto"; };
  return automatic(option.fallback) || automatic(option.factory_fallback) ||
         std::ranges::any_of(option.verb_defaults, automatic, &VerbDefault::value);
}

// Notes an option that cannot matter; an unsupported one stops the run unless it requests the default behavior.
void OptionAssigner::check_value(const Option& option, const Json& value, const std::string& where) {
  if (option.status == Status::supported || value == parsed_.options.setting(option.name).value) return;
  bool off = value.is_null() || value == false || (value.is_array() && value.empty());
  if (option.status == Status::always_on && value == read_value(option, Json(option.always_value)).value()) return;
  if (option.status == Status::no_effect || option.status == Status::always_on)
    parsed_.notes.push_back(fmt::format("{} is accepted without effect: {}", where, option.reason));
  else if (!off)
    throw UserError(ExitCode::usage, fmt::format("{} is not available", where), std::string(option.reason));
}

}  // namespace hone::cli
