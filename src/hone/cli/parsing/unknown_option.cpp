#include "hone/cli/parsing/unknown_option.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/error.h"
#include "hone/cli/commands.h"
#include "hone/cli/compat/foreign_words.h"
#include "hone/cli/compat/names.h"

namespace hone::cli {
namespace {

// The other commands that have an option of that name.
std::string commands_with(const std::string& name, FrontEnd front_end) {
  Verbs verbs = 0;
  for (const auto& option : options_table()) {
    bool named = option.name == name || std::ranges::any_of(option.other_names(), [&](const Alias& a) { return a.name == name; });
    if (named) verbs |= option.verbs;
  }
  std::string list;
  for (const auto& command : shown_commands(front_end))
    if (command.verb & verbs && command.run) list += (list.empty() ? "" : ", ") + std::string(command.name);
  return list;
}

// "fsdp_config.fsdp_version": a key of an option that is JSON.
std::string hint_for_inner_key(const NameIndex& names, const std::string& name, const std::string& dashes) {
  const auto dot = name.find('.');
  const auto outer = dot == name.npos ? std::nullopt : names.find(name.substr(0, dot));
  if (!outer || outer->option->type.kind != Kind::json) return "";
  return fmt::format("write it as {}{} '{{\"{}\": …}}'. {}", dashes, name.substr(0, dot), name.substr(dot + 1),
                     outer->option->help);
}

}  // namespace

std::optional<std::string> note_or_refuse_unknown(const Syntax& syntax, const NameIndex& names, const UnknownOption& unknown) {
  const auto& [what, name, dashes, is_tolerated] = unknown;
  auto near = names.nearest(name);
  auto others = commands_with(name, syntax.front_end);
  if (!others.empty() && compat::takes(syntax.front_end, syntax.verb, name))
    return fmt::format("{}{} is accepted without effect: it is for {}", dashes, name, others);
  if (is_tolerated) return what + ", ignored as asked";
  if (auto meant = compat::option_meant_by(name); !meant.empty() && others.empty())
    throw UserError(ExitCode::usage, what, fmt::format("did you mean {}", meant));
  if (auto inner = hint_for_inner_key(names, name, dashes); !inner.empty()) throw UserError(ExitCode::usage, what, inner);
  constexpr size_t kListed = 12;
  if (auto meant = names.names_with_prefix(name); dashes.starts_with('-') && meant.size() > 1 && meant.size() <= kListed)
    throw UserError(ExitCode::usage, what, fmt::format("it could be --{}", fmt::join(meant, ", --")));
  std::string hint = near.empty() ? "" : fmt::format("did you mean {}{}", dashes, near);
  if (!others.empty())
    hint = fmt::format("{} does not take it; {} do{}", syntax.command, others, others.find(',') == others.npos ? "es" : "");
  if (hint.empty()) hint = fmt::format("{} {} --help lists the options", program_name(syntax.front_end), syntax.command);
  throw UserError(ExitCode::usage, what, hint);
}

}  // namespace hone::cli
