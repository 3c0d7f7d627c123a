#include "hone/cli/dialect_flags.h"

#include <algorithm>
#include <cctype>

namespace hone::cli {
namespace {

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The front end's name of an option, where a value means the same under both names.
std::string_view name_in_dialect(std::string_view name, FrontEnd front_end, Verbs verb) {
  for (const auto& option : options_table()) {
    if (option.name != name || !(option.verbs & verb)) continue;
    const auto shown = shown_name(option, front_end);
    const auto aliases = option.other_names();
    const auto alias = std::ranges::find(aliases, shown, &Alias::name);
    return alias != aliases.end() && alias->negated ? name : shown;
  }
  return name;
}

}  // namespace

std::string in_dialect(std::string_view message, FrontEnd front_end, Verbs verb) {
  std::string out;
  while (!message.empty()) {
    const auto dashes = message.find("--");
    const auto begin = dashes == message.npos ? message.size() : dashes + 2;
    auto end = begin;
    while (end < message.size() && is_of_name(message[end])) ++end;
    const bool is_flag = dashes != message.npos && (dashes == 0 || !is_of_name(message[dashes - 1]));
    const auto name = message.substr(begin, end - begin);
    out += message.substr(0, begin);
    out += is_flag ? name_in_dialect(name, front_end, verb) : name;
    message.remove_prefix(end);
  }
  return out;
}

}  // namespace hone::cli
